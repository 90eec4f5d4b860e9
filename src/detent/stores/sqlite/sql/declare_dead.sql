-- Declare nodes dead that are known to be gone.
-- ?1 incarnations in one blob  ?2 reason  ?3 now  ?4 whether they have stopped their jobs themselves
UPDATE detent_node SET state = 'dead', dead_at = ?3, death = ?2, fenced = ?4
WHERE incarnation IN (SELECT id FROM detent_ids(?1)) AND state <> 'dead'
