-- The journal: which calls of the gateway's own tools were dispatched, and what came of them. A row without
-- `completed_at` whose response has ended is a call of which nobody knows whether it had its effect.

CREATE TABLE tool_calls (
    response      INTEGER NOT NULL,           -- responses.key
    turn          INTEGER NOT NULL,           -- which inference asked for it: 0, 1, 2 …
    position      INTEGER NOT NULL,           -- which of that inference's calls: 0, 1, 2 …
    server_label  TEXT    NOT NULL,
    tool          TEXT    NOT NULL,
    arguments     TEXT    NOT NULL,           -- as the model wrote them
    dispatched_at INTEGER NOT NULL,           -- Unix milliseconds
    completed_at  INTEGER,
    output        TEXT,                       -- what the model was told, or
    error         TEXT,                       -- the stable code of its failure, `output` saying it in words
    PRIMARY KEY (response, turn, position)
) STRICT, WITHOUT ROWID;
