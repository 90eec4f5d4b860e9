-- Forget what rates remember and need not any more.

-- step: buckets
-- Forget buckets that have been full since a moment.
-- ?1 moment  ?2 limit
-- ?3 role  ?4 term  ?5 node of the leader who does it; NULL for anybody else
DELETE FROM detent_bucket
WHERE gate IN (SELECT gate FROM detent_bucket WHERE full_at <= ?1 LIMIT ?2)
    AND (?3 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?3 AND term = ?4 AND node = ?5
    ))

-- step: passes
-- ?1 moment  ?2 limit
-- ?3 role  ?4 term  ?5 node of the leader who does it; NULL for anybody else
DELETE FROM detent_pass
WHERE rowid IN (SELECT rowid FROM detent_pass WHERE until <= ?1 LIMIT ?2)
    AND (?3 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?3 AND term = ?4 AND node = ?5
    ))
