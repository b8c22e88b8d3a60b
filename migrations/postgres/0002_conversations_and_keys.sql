-- Approvals, conversations, and creates that may be sent more than once.
--
-- Times are Unix milliseconds unless said otherwise. What clients may send is `bytea`, since `text` cannot hold every
-- character.

-- Calls that wait for a person's approval. Of what would be called only hashes are kept. The response need not have a row.
CREATE TABLE approvals (
    owner       bigint NOT NULL,              -- owners.key
    id          bytea  NOT NULL,
    response    uuid   NOT NULL,              -- the key that the response has if it has a row
    response_id bytea,                        -- its id, if the key does not tell it
    arguments   bytea  NOT NULL,              -- SHA-256
    definition  bytea  NOT NULL,              -- SHA-256
    expires_at  bigint NOT NULL,              -- Unix seconds
    used_at     bigint,                       -- Unix seconds; null: not yet
    PRIMARY KEY (owner, id)
);

CREATE INDEX approvals_by_response ON approvals (owner, response);
CREATE INDEX approvals_by_expiry ON approvals (expires_at);

-- Items that requests read and append to. A response that was made in a conversation has its id as `previous_id`.
CREATE TABLE conversations (
    key           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner         bigint NOT NULL,            -- owners.key
    id            bytea  NOT NULL,
    created_at    bigint NOT NULL,            -- Unix seconds
    used_at       bigint NOT NULL,            -- the last append or update; 0: is being deleted
    next_position bigint NOT NULL,            -- of the next item; never decreases
    visible_from  bigint NOT NULL,            -- the newest summary of all before it hides what has a lower position
    metadata      bytea  NOT NULL             -- a JSON object
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX conversations_by_id ON conversations (id);
CREATE INDEX conversations_by_use ON conversations (used_at, key);
CREATE INDEX conversations_by_owner ON conversations (owner, key);

CREATE TABLE conversation_items (
    conversation bigint   NOT NULL,           -- conversations.key
    position     bigint   NOT NULL,
    item_key     uuid     NOT NULL,           -- the first half of the SHA-256 of its id: ids may be longer than keys of an index
    item_id      bytea    NOT NULL,
    direction    smallint NOT NULL,           -- 0: input, 1: output
    context      smallint,                    -- 1: a user's message, 2: instructions, 3: a summary of all before it
    tokens       bigint,                      -- estimated, of a user's message
    state        bytea,                       -- sealed provider state
    model_view   bytea,                       -- what the model sees; null: `wire`; '': nothing
    wire         bytea    NOT NULL,           -- the item, as clients see it
    PRIMARY KEY (conversation, position)
);

CREATE UNIQUE INDEX conversation_items_by_id ON conversation_items (conversation, item_key);
-- What a summary leaves of the items before it, and the summaries.
CREATE INDEX conversation_items_by_context ON conversation_items (conversation, context, position)
    WHERE context IS NOT NULL;

-- What a response that was made in a conversation has read of it.
CREATE TABLE response_conversations (
    response uuid   NOT NULL,                 -- responses.key
    owner    bigint NOT NULL,                 -- owners.key
    first    bigint NOT NULL,                 -- the position from which items were visible
    until    bigint NOT NULL,                 -- the position behind the last item
    PRIMARY KEY (response, owner)
);

-- Conversations in which runs go on. A lock is void when its time is over.
CREATE TABLE conversation_locks (
    owner        bigint NOT NULL,             -- owners.key
    conversation bytea  NOT NULL,             -- conversations.id; there need not be one
    instance     text   NOT NULL,             -- the process that has the lock
    holder       uuid   NOT NULL,             -- this one lock
    until        bigint NOT NULL,             -- by the clock of the database
    PRIMARY KEY (owner, conversation)
) WITH (fillfactor = 70);

-- Which response the key of a request has led to. Goes with the response.
CREATE TABLE idempotency_keys (
    owner       bigint NOT NULL,              -- owners.key
    key         bytea  NOT NULL,              -- as the client sent it
    fingerprint bytea  NOT NULL,              -- SHA-256 of the request
    response    uuid   NOT NULL,              -- responses.key
    expires_at  bigint NOT NULL,              -- a run that goes on keeps its key
    PRIMARY KEY (owner, key)
);

CREATE INDEX idempotency_keys_by_response ON idempotency_keys (response, owner);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- The events of a stream as they were sent, several to a row, without gaps. Goes with the response, or with the key.
CREATE TABLE event_log (
    response uuid    NOT NULL,                -- responses.key
    owner    bigint  NOT NULL,                -- owners.key
    first    bigint  NOT NULL,                -- sequence number of the first event
    last     bigint  NOT NULL,                -- sequence number of the last event
    is_end   boolean NOT NULL,                -- whether that is the terminal event
    bytes    bytea   NOT NULL,                -- encoded for the wire
    PRIMARY KEY (response, owner, first)
);

-- Which process goes over the rows of a tenant to add up their sizes: two would delete twice as much as is too much.
CREATE TABLE tenant_walks (
    tenant bytea  NOT NULL PRIMARY KEY,
    holder uuid   NOT NULL,                   -- the process
    until  bigint NOT NULL                    -- by the clock of the database
);
