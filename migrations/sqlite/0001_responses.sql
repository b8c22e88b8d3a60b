-- Responses and their items. Times are Unix milliseconds unless said otherwise.
--
-- `key` orders rows by when they were first written; ids of clients' own items never decide where a row
-- goes, so that every table is appended to.

CREATE TABLE responses (
    key           INTEGER PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    principal     TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    previous_id   TEXT,
    status        TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,           -- Unix seconds, as the response says
    finished_at   INTEGER,                    -- null while it runs
    expires_at    INTEGER,                    -- null: never
    lineage_until INTEGER,                    -- neither it nor an ancestor expires before this
    instance      TEXT    NOT NULL,           -- the process that makes, or made, it
    lease_until   INTEGER,                    -- set exactly while it runs
    epoch         INTEGER NOT NULL DEFAULT 1, -- counts take-overs
    background    INTEGER NOT NULL DEFAULT 0,
    model         TEXT    NOT NULL,
    body          TEXT    NOT NULL            -- the response object, as sent
) STRICT;

-- Serves look-ups, chains and lists: every query names the owner, and ids sort by time.
CREATE UNIQUE INDEX responses_by_id ON responses (tenant, principal, id);
CREATE INDEX responses_by_expiry ON responses (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX responses_running ON responses (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE items (
    response INTEGER NOT NULL,                -- responses.key
    position INTEGER NOT NULL,                -- in the response's own input and output
    item_id  TEXT    NOT NULL,
    side     INTEGER NOT NULL,                -- 0: input, 1: output
    history  TEXT,                            -- what the model sees; null: `wire`; '': nothing
    wire     TEXT    NOT NULL,                -- the item, as clients see it
    PRIMARY KEY (response, position)
) STRICT, WITHOUT ROWID;

-- Not unique: clients replay items, and so store the same id in several responses.
CREATE INDEX items_by_id ON items (item_id);

-- One row that readiness checks write to.
CREATE TABLE probe (
    id      INTEGER PRIMARY KEY CHECK (id = 0),
    written INTEGER NOT NULL
) STRICT;
