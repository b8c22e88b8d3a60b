-- Columns for lists and shares. The tables are locked in the order in which gateways lock them.

-- Background runs are claimed by tenant in turn. Gateways of the version before queue them without the tenant: maintenance adds it.
ALTER TABLE runs ADD COLUMN tenant bytea NOT NULL DEFAULT '';   -- of a background run: that of its owner

UPDATE runs r SET tenant = o.tenant FROM owners o WHERE o.key = r.owner AND r.attempt IS NOT NULL;

CREATE INDEX runs_waiting_by_tenant ON runs (tenant, response, owner) WHERE attempt IS NOT NULL AND instance = '';

ALTER TABLE responses
    ADD COLUMN unlisted      boolean,         -- true: it is polled by its id alone; null: it is stored
    ADD COLUMN failed_tenant bytea;           -- of a request that failed before its first output: its tenant
