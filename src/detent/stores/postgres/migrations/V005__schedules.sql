-- Schedules: what fires, what became of each slot, and the times that are left out.

-- One value per change of any schedule: a revision is never used twice, whatever is deleted.
CREATE SEQUENCE detent.detent_schedule_revision AS bigint;

-- What fires, and where it stands. Names sort by their bytes, in every store alike.
CREATE TABLE detent.detent_schedule (
    name              text COLLATE "C" NOT NULL,
    schedule_group    text COLLATE "C" NOT NULL,
    owner             text        NOT NULL,
    trigger           bytea       NOT NULL,
    calendars         text[]      NOT NULL,
    misfire           text        NOT NULL,
    catch_up_limit    integer     NOT NULL,
    misfire_threshold interval    NOT NULL,
    overlap           text        NOT NULL,
    jitter            interval    NOT NULL,
    start_at          timestamptz,
    end_at            timestamptz,
    max_runs          integer,
    description       text        NOT NULL,
    -- What its jobs are made from.
    task              text        NOT NULL,
    queue             text        NOT NULL,
    lane              text        NOT NULL,
    priority          smallint    NOT NULL,
    args              bytea       NOT NULL,
    codec             text        NOT NULL,
    options           bytea,
    params            bytea,
    tags              text[]      NOT NULL,
    principal         text,
    -- Where it stands.
    revision          bigint      NOT NULL,
    next_fire         timestamptz,
    -- When firers look at it: at its next slot, or later if that could not be fired.
    due_at            timestamptz,
    prev_fire         timestamptz,
    runs              bigint      NOT NULL,
    paused_at         timestamptz,
    declared_at       timestamptz,
    edited            text[]      NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    problem           text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX detent_schedule_due ON detent.detent_schedule (due_at, priority DESC)
    WHERE due_at IS NOT NULL AND paused_at IS NULL;
CREATE INDEX detent_schedule_group_name ON detent.detent_schedule (schedule_group, name);
-- Made last: see detent_ready.
ALTER TABLE detent.detent_schedule ADD PRIMARY KEY (name);

-- Groups that are paused: a schedule that joins one later is paused with it.
CREATE TABLE detent.detent_schedule_group (
    name      text COLLATE "C" NOT NULL PRIMARY KEY,
    paused_at timestamptz NOT NULL
);

-- What became of each slot. The key is the promise: one job per slot.
CREATE TABLE detent.detent_slot (
    schedule text COLLATE "C" NOT NULL,
    slot     timestamptz NOT NULL,
    fired_at timestamptz NOT NULL,
    job      uuid,
    state    text        NOT NULL,
    manual   boolean     NOT NULL,
    -- Whether its job may still live: true until a later firing has seen its end.
    live     boolean     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX detent_slot_live ON detent.detent_slot (schedule, fired_at) WHERE live;
CREATE INDEX detent_slot_fired_at ON detent.detent_slot (fired_at);
ALTER TABLE detent.detent_slot ADD PRIMARY KEY (schedule, slot);

-- Times that schedules leave out.
CREATE TABLE detent.detent_calendar (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    data bytea NOT NULL
);
