-- The account of a run: its turns, calls and waits with their times. Written when the response ends; opaque.

ALTER TABLE responses ADD COLUMN trace bytea;
