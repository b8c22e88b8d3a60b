-- Calls that wait for a person's approval. Of what would be called only hashes are kept.
--
-- `response` is no reference: a response that its client did not want stored has no row, and its calls
-- are approved all the same.

CREATE TABLE approvals (
    tenant     TEXT    NOT NULL,
    principal  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    response   TEXT    NOT NULL,              -- the id of the response that asked
    arguments  BLOB    NOT NULL,              -- SHA-256
    definition BLOB    NOT NULL,              -- SHA-256
    expires_at INTEGER NOT NULL,              -- Unix seconds
    used_at    INTEGER,                       -- Unix seconds; null: not yet
    PRIMARY KEY (tenant, principal, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX approvals_by_response ON approvals (tenant, principal, response);
CREATE INDEX approvals_by_expiry ON approvals (expires_at);
