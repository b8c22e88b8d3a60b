-- Lists of responses with a filter are found by it.

ALTER TABLE responses ADD COLUMN unlisted INTEGER;   -- 1: it is polled by its id alone; null: it is stored

CREATE INDEX responses_by_status ON responses (owner, status, key) WHERE unlisted IS NULL;
CREATE INDEX responses_by_model ON responses (owner, model, status, key) WHERE unlisted IS NULL;

-- Rows whose life is short are found when it is over.
CREATE INDEX responses_unlisted ON responses (expires_at) WHERE unlisted IS NOT NULL;

-- Requests that failed before their first output have a row without content. Of each tenant the newest are kept.

ALTER TABLE responses ADD COLUMN failed_tenant TEXT;   -- of the row of such a request: its tenant

-- Finds the oldest of a tenant.
CREATE INDEX responses_by_failed_tenant ON responses (failed_tenant, key) WHERE failed_tenant IS NOT NULL;

-- Background runs are claimed by tenant in turn.

ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';   -- of a background run: that of its owner

UPDATE runs SET tenant = (SELECT o.tenant FROM responses s JOIN owners o ON o.key = s.owner WHERE s.key = runs.response)
    WHERE attempt IS NOT NULL
        AND EXISTS (SELECT 1 FROM responses s JOIN owners o ON o.key = s.owner WHERE s.key = runs.response);

CREATE INDEX runs_by_tenant ON runs (tenant, response, lease_until, instance, orphan) WHERE attempt IS NOT NULL;
