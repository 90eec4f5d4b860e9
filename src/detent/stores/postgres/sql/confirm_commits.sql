-- Let the end of this transaction wait until a synchronous standby has all that was committed
-- before it. What is visible here may be nowhere else: the wait of the transaction that wrote it
-- can have been broken off. A message in the log is a write that leaves no row behind; without
-- synchronous standbys there is nothing to wait for.
SELECT pg_logical_emit_message(true, 'detent', ''::text)
WHERE current_setting('synchronous_standby_names') <> ''
