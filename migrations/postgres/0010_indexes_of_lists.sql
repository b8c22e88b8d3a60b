-- Apart from the columns: while an index is made, responses are read, and not written.

-- Lists of responses with a filter are found by it. An entry of an index has a bound, the name of a model has none.
CREATE INDEX responses_by_status ON responses (owner, status, key) WHERE unlisted IS NULL;
CREATE INDEX responses_by_model ON responses (owner, substring(model FOR 256), status, key) WHERE unlisted IS NULL;

-- Rows whose life is short are found when it is over.
CREATE INDEX responses_unlisted ON responses (expires_at) WHERE unlisted IS NOT NULL;

-- Finds the oldest failed request of a tenant.
CREATE INDEX responses_by_failed_tenant ON responses (failed_tenant, key, owner) WHERE failed_tenant IS NOT NULL;
