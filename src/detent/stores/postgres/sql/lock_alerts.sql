-- Wait until no other transaction raises alerts: two that see no open window would both begin one.
SELECT pg_advisory_xact_lock('detent.detent_alert'::regclass::oid::integer, 0)
