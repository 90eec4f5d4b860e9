-- Remove a schedule; its slots stay, as history.
-- $1 name  $2 the revision that was seen, or NULL for any
DELETE FROM detent.detent_schedule
WHERE name = $1 AND ($2::bigint IS NULL OR revision = $2)
RETURNING name
