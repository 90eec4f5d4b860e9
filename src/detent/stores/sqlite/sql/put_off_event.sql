-- Let an event be taken again later, or never; unless others have taken it meanwhile.

-- step: put
-- ?1 id  ?2 tries  ?3 job  ?4 kind: after a loss of history another may have its id
-- ?5 when it is due  ?6 now if it is undeliverable, else NULL  ?7 problem
UPDATE detent_event SET due_at = ?5, parked_at = ?6, problem = ?7
WHERE id = ?1 AND tries = ?2 AND job = ?3 AND kind = ?4 AND parked_at IS NULL

-- step: noted
-- ?1 alert  ?2 sink  ?3 problem  ?4 now
UPDATE detent_alert
SET trail = json_insert(trail, '$[#]', json_array(?4, 'undeliverable', ?2, ?3))
WHERE id = ?1
