-- Is a claim valid? In a write transaction, of which there is one at a time, it stays so.
-- ?1 incarnation  ?2 id  ?3 fence
SELECT EXISTS (SELECT 1 FROM detent_running WHERE id = ?2 AND fence = ?3 AND node = ?1)
