-- Send a wake-up. Nobody needs it to survive a crash, so its commit need not wait for the disk.
-- $1 channel  $2 payload
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)
