-- Declare nodes dead that somebody knows to be gone.
-- ?1 incarnations in one blob  ?2 reason  ?3 now
UPDATE detent_node SET state = 'dead', dead_at = ?3, death = ?2
WHERE incarnation IN (SELECT id FROM detent_ids(?1)) AND state <> 'dead'
