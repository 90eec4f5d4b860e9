-- All breakers.
SELECT name, version, phase, since, half_open_at, body
FROM detent.detent_breaker
ORDER BY name
