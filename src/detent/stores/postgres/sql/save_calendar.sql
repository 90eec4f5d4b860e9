-- Keep a calendar, in place of one that was there.
-- $1 name  $2 data
INSERT INTO detent.detent_calendar (name, data) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET data = excluded.data
