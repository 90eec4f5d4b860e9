-- Hold a term until the end of a transaction: whoever wants the next one waits. No row: it is over.
-- The lock lets renewals of the lease pass. Should the holder freeze, the server ends his session
-- after as long as a lease, unless it was to end it sooner anyway.
-- $1 role  $2 term  $3 node
SELECT
    role,
    set_config(
        'idle_in_transaction_session_timeout',
        least(
            (SELECT nullif(setting::bigint, 0) FROM pg_settings
             WHERE name = 'idle_in_transaction_session_timeout'),
            greatest(extract(epoch FROM lease) * 1000, 1)::bigint
        )::text,
        true
    )
FROM detent.detent_leader
WHERE role = $1 AND term = $2 AND node = $3
FOR KEY SHARE
