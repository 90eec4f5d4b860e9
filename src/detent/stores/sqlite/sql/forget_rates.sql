-- Forget what rates remember and need not any more.

-- step: buckets
-- Forget buckets that have been full since a moment.
-- ?1 moment  ?2 limit
DELETE FROM detent_bucket
WHERE gate IN (SELECT gate FROM detent_bucket WHERE full_at <= ?1 LIMIT ?2)

-- step: passes
-- ?1 moment  ?2 limit
DELETE FROM detent_pass
WHERE rowid IN (SELECT rowid FROM detent_pass WHERE until <= ?1 LIMIT ?2)
