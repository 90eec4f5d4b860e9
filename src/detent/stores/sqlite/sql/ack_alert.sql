-- Note that somebody has seen an alert; the first one stands.
-- ?1 id  ?2 by whom  ?3 now
UPDATE detent_alert
SET acked_at = ?3, acked_by = ?2,
    trail = json_insert(trail, '$[#]', json_array(?3, 'acked', ?2, NULL))
WHERE id = ?1 AND acked_at IS NULL
