-- Is a term valid? A transaction that has read it is committed only if nobody was elected since:
-- in SQLite what a transaction has read is still so when it commits what it has written.
-- ?1 role  ?2 term  ?3 node
SELECT EXISTS (SELECT 1 FROM detent_leader WHERE role = ?1 AND term = ?2 AND node = ?3)
