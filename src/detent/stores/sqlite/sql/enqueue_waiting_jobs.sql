-- Let new jobs wait for others: they go from where claims look to where they do not.
-- ?1 ids in one blob  ?2 the jobs they wait for in one blob  ?3 now

-- step: parked
INSERT INTO detent_parked (
    id, reason, waits_for, waiting_for, parked_at, due_at, attempt, generation, priority, crashes,
    hooks, lane
)
SELECT ready.id, 'overlap', substr(?2, new.number * 16 + 1, 16), 1, ?3, ready.due_at, 1, 1,
    ready.priority, 0, ready.hooks, ready.lane
FROM detent_ids(?1) AS new
CROSS JOIN detent_ready AS ready ON ready.id = new.id

-- step: gone
DELETE FROM detent_ready WHERE id IN (SELECT id FROM detent_ids(?1))
