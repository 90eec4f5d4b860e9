-- Messages for jobs that a node runs; also those that came during an earlier claim.
-- ?1 incarnation
SELECT running.id, running.fence, signal.kind, signal.reason
-- Driven by the messages, which are few; running jobs may be many.
FROM detent_signal AS signal
CROSS JOIN detent_running AS running ON running.id = signal.id
WHERE running.node = ?1
ORDER BY running.id
