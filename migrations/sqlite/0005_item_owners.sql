-- Items are found by owner and id: clients make ids up, and whoever uses the same ones must cost nobody else a look.

ALTER TABLE items ADD COLUMN owner INTEGER;   -- a hash of tenant and principal; null: not yet filled in by maintenance

DROP INDEX items_by_id;
CREATE INDEX items_by_owner ON items (owner, item_id);
