-- Background runs are claimed by tenant in turn.

ALTER TABLE runs ADD COLUMN tenant TEXT NOT NULL DEFAULT '';   -- of a background run: that of its owner

UPDATE runs SET tenant = (SELECT o.tenant FROM responses s JOIN owners o ON o.key = s.owner WHERE s.key = runs.response)
    WHERE attempt IS NOT NULL
        AND EXISTS (SELECT 1 FROM responses s JOIN owners o ON o.key = s.owner WHERE s.key = runs.response);

CREATE INDEX runs_by_tenant ON runs (tenant, response, lease_until, instance, orphan) WHERE attempt IS NOT NULL;
