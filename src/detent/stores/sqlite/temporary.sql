-- Where a connection that writes keeps the rows of a batch between two steps. Temporary tables
-- live in memory, belong to one connection, and are rolled back with its transaction.

CREATE TABLE IF NOT EXISTS temp.detent_taken (
    number        INTEGER NOT NULL PRIMARY KEY,
    fence         INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    due_at        INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    hooks         INTEGER NOT NULL,
    lane          TEXT    NOT NULL,
    resource_gate TEXT,
    task_gate     TEXT,
    queue_gate    TEXT,
    weight        INTEGER
) STRICT;

CREATE TABLE IF NOT EXISTS temp.detent_end (
    id         BLOB    NOT NULL PRIMARY KEY,
    fence      INTEGER NOT NULL,
    node       BLOB    NOT NULL,
    claimed_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    priority   INTEGER NOT NULL,
    crashes    INTEGER NOT NULL,
    hooks      INTEGER NOT NULL,
    lane       TEXT    NOT NULL,
    task       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    lasted     REAL    NOT NULL,
    state      TEXT    NOT NULL,
    delay      INTEGER,
    charged    INTEGER NOT NULL,
    kind       TEXT,
    reason     TEXT,
    result     BLOB,
    error      BLOB,
    alone      INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS temp.detent_old (
    id      BLOB    NOT NULL PRIMARY KEY,
    archive INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
