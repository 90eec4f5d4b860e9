-- Limits of 1 that keep their order: a job that is put back holds back the later ones.
ALTER TABLE detent_limit ADD COLUMN ordered INTEGER NOT NULL DEFAULT 0;

-- The last job that was put back behind an ordered gate. While that job is pending or parked, nothing
-- else passes the gate. When it has ended this means nothing any more.
CREATE TABLE detent_hold (
    gate TEXT NOT NULL PRIMARY KEY,
    job  BLOB NOT NULL
) STRICT, WITHOUT ROWID;
