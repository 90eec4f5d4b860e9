-- Wait until no other transaction replaces the holder of a business key, and keep others from it.
-- Not a lock on the key's row: finishing jobs lock that row last, and replacing begins with it.
-- $1 task  $2 key
SELECT pg_advisory_xact_lock('detent.detent_key'::regclass::oid::integer, hashtext($1 || ' ' || $2))
