-- Let the jobs of a queue be claimed again. Returns the lanes that should be looked at.
-- $1 queue
UPDATE detent.detent_queue SET paused_at = NULL WHERE name = $1
