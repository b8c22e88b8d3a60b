-- Creates that may be sent more than once, and the events of their streams.

-- Which response the key of a request has led to. Goes with the response.
CREATE TABLE idempotency_keys (
    owner       INTEGER NOT NULL,             -- owners.key
    key         TEXT    NOT NULL,             -- as the client sent it
    fingerprint BLOB    NOT NULL,             -- SHA-256 of the request
    response    INTEGER NOT NULL,             -- responses.key
    expires_at  INTEGER NOT NULL,             -- Unix milliseconds; a run that goes on keeps its key
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_response ON idempotency_keys (response);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- The events of a stream as they were sent, several to a row, without gaps. Goes with the response, or with the key.
CREATE TABLE event_log (
    response INTEGER NOT NULL,                -- responses.key
    first    INTEGER NOT NULL,                -- sequence number of the first event
    last     INTEGER NOT NULL,                -- sequence number of the last event
    is_end   INTEGER NOT NULL,                -- whether that is the terminal event
    bytes    BLOB    NOT NULL,                -- encoded for the wire
    PRIMARY KEY (response, first)
) STRICT;
