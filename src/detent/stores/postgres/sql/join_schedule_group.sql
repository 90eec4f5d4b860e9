-- Wait until nobody switches a group, and let nobody do so before the transaction ends.
-- $1 the group's number
SELECT pg_advisory_xact_lock_shared($1::bigint)
