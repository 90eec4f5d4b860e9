-- Ended jobs whose time may be over, the oldest first. What rule holds for each is said elsewhere.

-- step: successes
-- Successes, the many, are in no index by time. But ids are made in the order of time, and no job
-- ends before its id is made: so those whose time is over are found among the oldest ids. What else
-- stands there (delayed jobs, other queues) is stepped over.
-- ?1 id behind which to look  ?2 the first id that can have been made too late  ?3 limit
SELECT id, generation, state, queue, finished_at
FROM detent_outcome
WHERE id > ?1 AND id < ?2
ORDER BY id
LIMIT ?3

-- step: others
-- ?1 state  ?2 time of the end  ?3 id behind which to look  ?4 ended at the latest  ?5 limit
SELECT id, generation, state, queue, finished_at
FROM detent_outcome INDEXED BY detent_outcome_state
WHERE state <> 'succeeded' AND state = ?1 AND (finished_at, id) > (?2, ?3) AND finished_at <= ?4
ORDER BY finished_at, id
LIMIT ?5
