-- Idempotency keys whose response its owner has deleted: the same request is not made again. Nothing else of the response
-- is left.
CREATE TABLE deleted_keys (
    owner       bigint NOT NULL,              -- owners.key
    key         bytea  NOT NULL,              -- as in idempotency_keys
    fingerprint bytea  NOT NULL,
    expires_at  bigint NOT NULL,              -- Unix milliseconds
    PRIMARY KEY (owner, key)
);

CREATE INDEX deleted_keys_by_expiry ON deleted_keys (expires_at);
