-- Let an event be taken again later, or never; unless others have taken it meanwhile.
-- ?1 id  ?2 tries  ?3 when it is due  ?4 now if it is undeliverable, else NULL  ?5 problem
UPDATE detent_event SET due_at = ?3, parked_at = ?4, problem = ?5
WHERE id = ?1 AND tries = ?2 AND parked_at IS NULL
