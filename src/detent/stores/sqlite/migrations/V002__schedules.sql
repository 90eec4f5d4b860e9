-- Schedules: what fires, what became of each slot, and the times that are left out.

-- One value per change of any schedule: a revision is never used twice, whatever is deleted.
INSERT INTO detent_fence (name, value) VALUES ('schedule', 0);

-- What fires, and where it stands.
CREATE TABLE detent_schedule (
    name              TEXT    NOT NULL PRIMARY KEY,
    schedule_group    TEXT    NOT NULL,
    owner             TEXT    NOT NULL,
    trigger           BLOB    NOT NULL,
    calendars         TEXT    NOT NULL,
    misfire           TEXT    NOT NULL,
    catch_up_limit    INTEGER NOT NULL,
    misfire_threshold INTEGER NOT NULL,
    overlap           TEXT    NOT NULL,
    jitter            INTEGER NOT NULL,
    start_at          INTEGER,
    end_at            INTEGER,
    max_runs          INTEGER,
    description       TEXT    NOT NULL,
    -- What its jobs are made from.
    task              TEXT    NOT NULL,
    queue             TEXT    NOT NULL,
    lane              TEXT    NOT NULL,
    priority          INTEGER NOT NULL,
    args              BLOB    NOT NULL,
    codec             TEXT    NOT NULL,
    options           BLOB,
    params            BLOB,
    tags              TEXT    NOT NULL,
    principal         TEXT,
    -- Where it stands.
    revision          INTEGER NOT NULL,
    next_fire         INTEGER,
    -- When firers look at it: at its next slot, or later if that could not be fired.
    due_at            INTEGER,
    prev_fire         INTEGER,
    runs              INTEGER NOT NULL,
    paused_at         INTEGER,
    declared_at       INTEGER,
    edited            TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    problem           TEXT
) STRICT;
CREATE INDEX detent_schedule_due ON detent_schedule (due_at, priority DESC)
    WHERE due_at IS NOT NULL AND paused_at IS NULL;
CREATE INDEX detent_schedule_group_name ON detent_schedule (schedule_group, name);

-- Groups that are paused: a schedule that joins one later is paused with it.
CREATE TABLE detent_schedule_group (
    name      TEXT    NOT NULL PRIMARY KEY,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What became of each slot. The key is the promise: one job per slot.
CREATE TABLE detent_slot (
    schedule TEXT    NOT NULL,
    slot     INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    job      BLOB,
    state    TEXT    NOT NULL,
    manual   INTEGER NOT NULL,
    -- Whether its job may still live: 1 until a later firing has seen its end.
    live     INTEGER NOT NULL,
    PRIMARY KEY (schedule, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX detent_slot_live ON detent_slot (schedule, fired_at) WHERE live;
CREATE INDEX detent_slot_fired_at ON detent_slot (fired_at);

-- Times that schedules leave out.
CREATE TABLE detent_calendar (
    name TEXT NOT NULL PRIMARY KEY,
    data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
