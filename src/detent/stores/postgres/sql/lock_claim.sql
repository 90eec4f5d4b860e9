-- Hold a claim for the length of a transaction. No row: it is lost. No rescue and no end passes
-- this lock; progress, log lines and cancel requests do. The task's own statements get the
-- planner back that ours do without, and all the time they want; should the node be declared
-- dead meanwhile, end_sessions knows the session by its name.
-- $1 incarnation  $2 id  $3 fence
SELECT
    set_config('enable_seqscan', 'on', true),
    set_config('enable_bitmapscan', 'on', true),
    set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true),
    set_config('plan_cache_mode', 'auto', true),
    set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('application_name', 'detent ' || $1::uuid, true)
FROM detent.detent_running
WHERE id = $2 AND fence = $3 AND node = $1
FOR NO KEY UPDATE
