-- Provider state that is stored beside an item: sealed, and found by whoever replays the item.

ALTER TABLE items ADD COLUMN state_key TEXT;  -- owner and id by which a replay finds it; null: no state
ALTER TABLE items ADD COLUMN state     TEXT;  -- sealed

CREATE INDEX items_by_state ON items (state_key) WHERE state_key IS NOT NULL;
