-- Fences, lock fences and terms never go back, whatever becomes of the history.

-- What is added to every number that others may compare, so that it is above all numbers that an
-- earlier primary has given: a lost tail of its history may hold some that were never seen here. The
-- timeline, the first eight digits of the name, is higher after each promotion and each recovery of
-- a backup. Some providers keep their log elsewhere, and have none.
CREATE FUNCTION detent.detent_epoch() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint - 1) << 40;
EXCEPTION WHEN OTHERS THEN
    RETURN 0;
END
$$;

-- One row, which names the transaction that wrote it. In the copy that a dump makes it was written by
-- another: the numbers given since the dump are not known here, and those to come must be above them.
CREATE TABLE detent.detent_history (
    written_by bigint NOT NULL
);
INSERT INTO detent.detent_history (written_by) VALUES (txid_current());
