-- Circuit breakers: what all nodes know together.

-- One row for each breaker; the body is read and written as a whole.
CREATE TABLE detent_breaker (
    name         TEXT    NOT NULL PRIMARY KEY,
    version      INTEGER NOT NULL,
    phase        TEXT    NOT NULL,
    since        INTEGER,
    half_open_at INTEGER,
    body         TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
