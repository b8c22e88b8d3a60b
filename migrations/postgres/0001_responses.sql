-- Responses, their items, and the runs that make them.
--
-- Times are Unix milliseconds unless said otherwise. What clients and model servers have written is `bytea`, since
-- `text` cannot hold every character: it is UTF-8, and `convert_from(column, 'UTF8')` shows it.

-- Whose rows are whose.
CREATE TABLE owners (
    key       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    bytea NOT NULL,
    principal bytea NOT NULL,
    UNIQUE (tenant, principal)
);

-- `key` is the UUID of the id, which begins with the time, so that the table is appended to, and can be divided by
-- time. Columns that queries look at stand before the long ones, which are not compressed: parts of them are read alone.
CREATE TABLE responses (
    key           uuid   NOT NULL,
    owner         bigint NOT NULL,            -- owners.key
    expires_at    bigint,                     -- null: never; 0: deleted while it runs
    lineage_until bigint,                     -- neither it nor an ancestor expires before this
    created_at    bigint NOT NULL,            -- Unix seconds, as the response says
    finished_at   bigint,                     -- null while it runs
    status        text   NOT NULL,
    id            bytea,                      -- null: resp_ and the digits of the key
    previous_key  uuid,                       -- the key of the response that it continues
    previous_id   bytea,                      -- the id of that, or of the conversation that it was made in
    model         bytea  NOT NULL,
    item_index    bytea  NOT NULL,            -- ids and lengths of the items (`src/store/item_index.rs`)
    items         bytea  NOT NULL,            -- their texts
    body          bytea  NOT NULL,            -- the response object, as sent
    PRIMARY KEY (key, owner)
);

ALTER TABLE responses ALTER COLUMN items SET STORAGE EXTERNAL, ALTER COLUMN body SET STORAGE EXTERNAL;

-- Serves lists, and finds all rows of an owner.
CREATE INDEX responses_by_owner ON responses (owner, key);

-- The running responses, and who makes them. The row of `responses` is that of the same key and owner.
CREATE TABLE runs (
    response    uuid    NOT NULL,
    owner       bigint  NOT NULL,
    epoch       integer NOT NULL,             -- how often the run was taken over, from 1
    lease_until bigint  NOT NULL,             -- by the clock of the database
    orphan      smallint,                     -- why nobody makes it: 0: its process is gone, 1: its end could not be stored
    instance    text    NOT NULL,             -- the process that makes it
    state       bytea,                        -- opaque
    PRIMARY KEY (response, owner)
) WITH (fillfactor = 70);

ALTER TABLE runs ALTER COLUMN state SET STORAGE EXTERNAL;

CREATE INDEX runs_by_instance ON runs (instance);

-- The turns of running responses: the items since the row was written. Removed when the response ends.
CREATE TABLE turns (
    response   uuid    NOT NULL,
    owner      bigint  NOT NULL,
    turn       integer NOT NULL,
    item_index bytea   NOT NULL,
    items      bytea   NOT NULL,
    PRIMARY KEY (response, owner, turn)
);

ALTER TABLE turns ALTER COLUMN items SET STORAGE EXTERNAL;

-- The calls of tools of running and ended responses.
CREATE TABLE tool_calls (
    response      uuid    NOT NULL,
    owner         bigint  NOT NULL,
    turn          integer NOT NULL,
    position      integer NOT NULL,           -- the place of the call in its turn
    dispatched_at bigint  NOT NULL,
    completed_at  bigint,                     -- null: whether the call had its effect is unknown
    server_label  bytea   NOT NULL,
    tool          bytea   NOT NULL,
    arguments     bytea   NOT NULL,
    output        bytea,
    error         text,
    PRIMARY KEY (response, owner, turn, position)
);

-- Ids of items that do not name their response: those that clients and model servers made.
CREATE TABLE item_ids (
    owner    bigint NOT NULL,
    item_id  bytea  NOT NULL,                 -- SHA-256 of an id that is longer than an index takes
    response uuid   NOT NULL,
    PRIMARY KEY (owner, item_id, response)
);

-- Items with provider state, by what a replay of them finds it with.
CREATE TABLE item_states (
    owner     bigint NOT NULL,
    state_key bytea  NOT NULL,                -- SHA-256
    response  uuid   NOT NULL,
    PRIMARY KEY (state_key, owner, response)
);

-- One row, rewritten to see whether the database accepts writes.
CREATE TABLE probe (
    id      integer PRIMARY KEY,
    written bigint NOT NULL
);
