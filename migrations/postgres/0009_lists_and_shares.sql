-- Lists of responses with a filter are found by it. An entry of an index has a bound, the name of a model has none.

ALTER TABLE responses ADD COLUMN unlisted boolean;   -- true: it is polled by its id alone; null: it is stored

CREATE INDEX responses_by_status ON responses (owner, status, key) WHERE unlisted IS NULL;
CREATE INDEX responses_by_model ON responses (owner, substring(model FOR 256), status, key) WHERE unlisted IS NULL;

-- Rows whose life is short are found when it is over.
CREATE INDEX responses_unlisted ON responses (expires_at) WHERE unlisted IS NOT NULL;

-- Requests that failed before their first output have a row without content. Of each tenant the newest are kept.

ALTER TABLE responses ADD COLUMN failed_tenant bytea;   -- of the row of such a request: its tenant

-- Finds the oldest of a tenant.
CREATE INDEX responses_by_failed_tenant ON responses (failed_tenant, key, owner) WHERE failed_tenant IS NOT NULL;

-- Background runs are claimed by tenant in turn. Gateways of the version before queue them without the tenant: these take turns
-- as those of one.
ALTER TABLE runs ADD COLUMN tenant bytea NOT NULL DEFAULT '';   -- of a background run: that of its owner

UPDATE runs r SET tenant = o.tenant FROM owners o WHERE o.key = r.owner AND r.attempt IS NOT NULL;

CREATE INDEX runs_waiting_by_tenant ON runs (tenant, response, owner) WHERE attempt IS NOT NULL AND instance = '';
