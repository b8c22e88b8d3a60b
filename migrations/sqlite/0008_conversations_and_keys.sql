-- Conversations: items that requests read and append to. A response that was made in one has its id as `previous_id`.

CREATE TABLE conversations (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,   -- never given twice: a deletion in steps knows only this
    owner         INTEGER NOT NULL,           -- owners.key
    id            TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,           -- Unix seconds
    used_at       INTEGER NOT NULL,           -- Unix milliseconds: the last append or update; 0: is being deleted
    next_position INTEGER NOT NULL,           -- of the next item; never decreases
    visible_from  INTEGER NOT NULL,           -- the newest summary of all before it hides what has a lower position
    metadata      TEXT    NOT NULL            -- a JSON object
) STRICT;

-- Ids begin with their time, so that the index is appended to.
CREATE UNIQUE INDEX conversations_by_id ON conversations (id);
CREATE INDEX conversations_by_use ON conversations (used_at);
CREATE INDEX conversations_by_owner ON conversations (owner);

CREATE TABLE conversation_items (
    key          INTEGER PRIMARY KEY,         -- conversations.key << 31 | position
    conversation INTEGER NOT NULL,            -- conversations.key
    item_id      TEXT    NOT NULL,
    direction    INTEGER NOT NULL,            -- 0: input, 1: output
    context      INTEGER,                     -- 1: a user's message, 2: instructions, 3: a summary of all before it
    tokens       INTEGER,                     -- estimated, of a user's message
    state        TEXT,                        -- sealed provider state
    model_view   TEXT,                        -- what the model sees; null: `wire`; '': nothing
    wire         TEXT    NOT NULL             -- the item, as clients see it
) STRICT;

CREATE UNIQUE INDEX conversation_items_by_id ON conversation_items (conversation, item_id);
-- What a summary leaves of the items before it, and the summaries.
CREATE INDEX conversation_items_by_context ON conversation_items (conversation, context) WHERE context IS NOT NULL;

-- What a response that was made in a conversation has read of it.
CREATE TABLE response_conversations (
    response INTEGER PRIMARY KEY,             -- responses.key
    first    INTEGER NOT NULL,                -- the position from which items were visible
    until    INTEGER NOT NULL                 -- the position behind the last item
) STRICT;

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
