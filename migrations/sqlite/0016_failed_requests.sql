-- Requests that failed before their first output have a row without content. Of each tenant the newest are kept.

ALTER TABLE responses ADD COLUMN failed_tenant TEXT;   -- of the row of such a request: its tenant

-- Finds the oldest of a tenant.
CREATE INDEX responses_by_failed_tenant ON responses (failed_tenant, key) WHERE failed_tenant IS NOT NULL;
