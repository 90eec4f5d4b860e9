-- What code says about a limit.
-- $1 name
SELECT declared FROM detent.detent_limit WHERE name = $1
