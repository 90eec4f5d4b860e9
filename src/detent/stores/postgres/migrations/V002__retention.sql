-- Retention: where ended jobs go that are not simply deleted, and how keys are found that expired.

-- One row for each job, as it was enqueued and as it ended. Its tries and log lines are gone.
CREATE TABLE detent.detent_archive (
    id              uuid        NOT NULL PRIMARY KEY,
    archived_at     timestamptz NOT NULL,
    enqueued_at     timestamptz NOT NULL,
    due_at          timestamptz NOT NULL,
    started_at      timestamptz,
    finished_at     timestamptz NOT NULL,
    fence           bigint,
    duration        real,
    attempt         integer     NOT NULL,
    generation      integer     NOT NULL,
    priority        smallint    NOT NULL,
    kind            smallint    NOT NULL,
    node            uuid,
    superseded_by   uuid,
    parent          uuid,
    retry_of        uuid,
    state           text        NOT NULL,
    task            text        NOT NULL,
    queue           text        NOT NULL,
    lane            text        NOT NULL,
    codec           text        NOT NULL,
    idempotency_key text,
    unique_key      text,
    principal       text,
    trace           text,
    reason          text,
    tags            text[],
    args            bytea       NOT NULL,
    options         bytea,
    params          bytea,
    result          bytea,
    error           bytea
);
CREATE INDEX detent_archive_archived_at ON detent.detent_archive (archived_at);

-- What failed or was canceled, in the order in which people page through it. Said in other words
-- than those of detent_outcome_state, so that a look by time is never made through this one, however
-- empty both are when it is planned.
CREATE INDEX detent_outcome_others ON detent.detent_outcome (id)
    WHERE state IN ('failed', 'canceled');

-- Only idempotency keys expire; business keys are not in it.
CREATE INDEX detent_key_expires_at ON detent.detent_key (expires_at) WHERE expires_at IS NOT NULL;
