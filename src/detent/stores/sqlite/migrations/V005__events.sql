-- Events that must reach somebody outside, and alerts about failures of one kind.

-- The outbox: written with the outcome, removed when a sink has it. Ids are never used again: a
-- receiver knows by them what it had before.
CREATE TABLE detent_event (
    id         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    sink       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    job        BLOB    NOT NULL,
    task       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    duration   REAL,
    node       BLOB,
    reason     TEXT,
    alert      INTEGER,
    tries      INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    -- When it may be taken: now, after a pause, or when whoever took it is taken for dead.
    due_at     INTEGER NOT NULL,
    problem    TEXT,
    parked_at  INTEGER,
    error      BLOB
) STRICT;
CREATE INDEX detent_event_due ON detent_event (sink, due_at, id) WHERE parked_at IS NULL;
-- The events of one job go one after the other.
CREATE INDEX detent_event_job ON detent_event (job, id);
CREATE INDEX detent_event_parked ON detent_event (id) WHERE parked_at IS NOT NULL;

-- One row for all failures of one kind in one window of time.
CREATE TABLE detent_alert (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task         TEXT    NOT NULL,
    fingerprint  TEXT    NOT NULL,
    window_start INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    message      TEXT    NOT NULL,
    frame        TEXT    NOT NULL,
    first_job    BLOB    NOT NULL,
    last_job     BLOB    NOT NULL,
    first_at     INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    count        INTEGER NOT NULL,
    delivered_at INTEGER,
    acked_at     INTEGER,
    acked_by     TEXT,
    -- What became of it, in JSON: [when, what, who, note], in order.
    trail        TEXT    NOT NULL DEFAULT '[]',
    UNIQUE (task, fingerprint, window_start)
) STRICT;
