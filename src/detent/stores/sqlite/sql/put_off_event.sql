-- Let an event be taken again later, or never; unless others have taken it meanwhile.

-- step: put
-- ?1 id  ?2 tries  ?3 when it is due  ?4 now if it is undeliverable, else NULL  ?5 problem
UPDATE detent_event SET due_at = ?3, parked_at = ?4, problem = ?5
WHERE id = ?1 AND tries = ?2 AND parked_at IS NULL

-- step: noted
-- ?1 alert  ?2 sink  ?3 problem  ?4 now
UPDATE detent_alert
SET trail = json_insert(trail, '$[#]', json_array(?4, 'undeliverable', ?2, ?3))
WHERE id = ?1
