-- Background runs are claimed by tenant in turn. Gateways of the version before queue them without the tenant: these take turns
-- as those of one.
ALTER TABLE runs ADD COLUMN tenant bytea NOT NULL DEFAULT '';   -- of a background run: that of its owner

UPDATE runs r SET tenant = o.tenant FROM owners o WHERE o.key = r.owner AND r.attempt IS NOT NULL;

CREATE INDEX runs_waiting_by_tenant ON runs (tenant, response, owner) WHERE attempt IS NOT NULL AND instance = '';
