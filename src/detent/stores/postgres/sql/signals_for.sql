-- Messages for jobs that a node runs.
-- $1 incarnation
SELECT signal.id, signal.fence, signal.kind, signal.reason
FROM detent.detent_signal AS signal
JOIN detent.detent_running AS running
    ON running.id = signal.id AND running.fence = signal.fence
WHERE running.node = $1
ORDER BY signal.id
