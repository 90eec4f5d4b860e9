-- Messages for jobs that a node runs; also those that came during an earlier claim.
-- $1 incarnation
SELECT running.id, running.fence, signal.kind, signal.reason
FROM detent.detent_signal AS signal
-- Driven by the messages, which are few; running jobs may be many, and dead rows of them more.
CROSS JOIN LATERAL (
    SELECT id, fence FROM detent.detent_running
    WHERE detent_running.id = signal.id AND detent_running.node = $1
    OFFSET 0
) AS running
ORDER BY running.id
