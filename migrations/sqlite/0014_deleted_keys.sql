-- Idempotency keys whose response its owner has deleted: the same request is not made again. Nothing else of the response
-- is left.
CREATE TABLE deleted_keys (
    owner       INTEGER NOT NULL,             -- owners.key
    key         TEXT    NOT NULL,             -- as in idempotency_keys
    fingerprint BLOB    NOT NULL,
    expires_at  INTEGER NOT NULL,             -- Unix milliseconds
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX deleted_keys_by_expiry ON deleted_keys (expires_at);
