-- Let no more jobs of a queue be claimed.
-- ?1 queue  ?2 now
INSERT INTO detent_queue AS known (name, paused_at) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(known.paused_at, excluded.paused_at)
