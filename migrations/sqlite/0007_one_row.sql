-- One row a response: its items stand in it, and its key is made from its id. Rust moves the rows behind this file
-- (`src/store/sqlite/move_rows.rs`) and drops `old_responses` and `old_items`.

-- Whose rows are whose. A row stays when its owner has none any more.
CREATE TABLE owners (
    key       INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    principal TEXT NOT NULL,
    UNIQUE (tenant, principal)
) STRICT;

INSERT INTO owners (tenant, principal)
    SELECT tenant, principal FROM responses UNION SELECT tenant, principal FROM approvals;

DROP INDEX responses_by_id;
DROP INDEX responses_by_expiry;
DROP INDEX items_by_owner;
DROP INDEX items_by_state;
ALTER TABLE responses RENAME TO old_responses;
ALTER TABLE items RENAME TO old_items;

-- Times are Unix milliseconds unless said otherwise. `key` is made from the id (`src/store/sqlite/keys.rs`): it begins
-- with the time, so that the table is appended to, and look-ups by id need no index. Columns that queries look at stand
-- before the long ones, which may have pages of their own.
CREATE TABLE responses (
    key           INTEGER PRIMARY KEY,
    owner         INTEGER NOT NULL,           -- owners.key
    id            TEXT    NOT NULL,
    expires_at    INTEGER,                    -- null: never
    lineage_until INTEGER,                    -- neither it nor an ancestor expires before this
    created_at    INTEGER NOT NULL,           -- Unix seconds, as the response says
    finished_at   INTEGER,                    -- null while it runs
    status        TEXT    NOT NULL,
    previous_id   TEXT,
    model         TEXT    NOT NULL,
    item_index    BLOB    NOT NULL,           -- ids and lengths of the items (`src/store/sqlite/item_index.rs`)
    items         BLOB    NOT NULL,           -- their texts
    body          TEXT    NOT NULL            -- the response object, as sent
) STRICT;

-- Serves lists, and finds all rows of an owner.
CREATE INDEX responses_by_owner ON responses (owner, key);

-- The turns of running responses: the items since the row was written. Removed when the response ends.
CREATE TABLE turns (
    response   INTEGER NOT NULL,              -- responses.key
    turn       INTEGER NOT NULL,
    item_index BLOB    NOT NULL,
    items      BLOB    NOT NULL,
    PRIMARY KEY (response, turn)
) STRICT, WITHOUT ROWID;

-- Ids of items that do not name their response: those that clients and model servers made.
CREATE TABLE item_ids (
    owner    INTEGER NOT NULL,                -- owners.key
    item_id  TEXT    NOT NULL,
    response INTEGER NOT NULL,                -- responses.key
    PRIMARY KEY (owner, item_id, response)
) STRICT, WITHOUT ROWID;

-- Items with provider state, by what a replay of them finds it with.
CREATE TABLE item_states (
    state_key TEXT    NOT NULL,
    response  INTEGER NOT NULL,               -- responses.key
    PRIMARY KEY (state_key, response)
) STRICT, WITHOUT ROWID;

DROP INDEX approvals_by_response;
DROP INDEX approvals_by_expiry;
ALTER TABLE approvals RENAME TO old_approvals;

CREATE TABLE approvals (
    owner      INTEGER NOT NULL,              -- owners.key
    id         TEXT    NOT NULL,
    response   TEXT    NOT NULL,              -- the id of the response that asked
    arguments  BLOB    NOT NULL,              -- SHA-256
    definition BLOB    NOT NULL,              -- SHA-256
    expires_at INTEGER NOT NULL,              -- Unix seconds
    used_at    INTEGER,                       -- Unix seconds; null: not yet
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

INSERT INTO approvals (owner, id, response, arguments, definition, expires_at, used_at)
    SELECT o.key, a.id, a.response, a.arguments, a.definition, a.expires_at, a.used_at
    FROM old_approvals a JOIN owners o ON o.tenant = a.tenant AND o.principal = a.principal;
DROP TABLE old_approvals;

CREATE INDEX approvals_by_response ON approvals (owner, response);
CREATE INDEX approvals_by_expiry ON approvals (expires_at);
