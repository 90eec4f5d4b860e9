-- Let the jobs of a queue be claimed again.
-- ?1 queue
UPDATE detent_queue SET paused_at = NULL WHERE name = ?1
