-- Wait until all who join a group have done so, and let nobody join before the transaction ends.
-- $1 the group's number
SELECT pg_advisory_xact_lock($1::bigint)
