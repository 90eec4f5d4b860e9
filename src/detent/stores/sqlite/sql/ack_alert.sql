-- Note that somebody has seen an alert; the first one stands.
-- ?1 id  ?2 by whom  ?3 now
UPDATE detent_alert SET acked_at = ?3, acked_by = ?2 WHERE id = ?1 AND acked_at IS NULL
