-- Keep what a dead node held.
-- ?1 incarnation  ?2 what it held
UPDATE detent_node SET autopsy = ?2 WHERE incarnation = ?1
