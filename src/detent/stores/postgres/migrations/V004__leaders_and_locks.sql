-- Leaders with their terms, daemons, and locks.

-- Who leads a role. The row stays when nobody does: a term never begins anew.
CREATE TABLE detent.detent_leader (
    role        text        NOT NULL PRIMARY KEY,
    term        bigint      NOT NULL,
    node        uuid,
    name        text,
    since       timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    lease       interval    NOT NULL,
    -- The server process that holds the advisory lock for this leader; NULL: only the lease counts.
    backend     integer,
    -- Makes the term part of a key, so that a new term waits for those who hold the row FOR KEY
    -- SHARE (the transactions fenced by the old one), and a renewal of the lease does not.
    UNIQUE (role, term)
) WITH (fillfactor = 50); -- renewals are HOT updates

-- The last report on each daemon, by the node that led it.
CREATE TABLE detent.detent_daemon (
    name       text        NOT NULL PRIMARY KEY,
    state      text        NOT NULL,
    node       uuid        NOT NULL,
    node_name  text        NOT NULL,
    term       bigint      NOT NULL,
    since      timestamptz NOT NULL,
    restarts   integer     NOT NULL,
    last_error text,
    failed_at  timestamptz
);

-- One value per acquisition of any lock: so a lock can be forgotten, and its fences still grow.
CREATE SEQUENCE detent.detent_lock_fence AS bigint;

-- Locks that are held, or were not given back.
CREATE TABLE detent.detent_lock (
    name        text        NOT NULL PRIMARY KEY,
    fence       bigint      NOT NULL,
    holder      uuid        NOT NULL,
    owner       text        NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50); -- renewals are HOT updates
