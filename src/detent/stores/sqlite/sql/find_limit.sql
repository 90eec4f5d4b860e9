-- What code says about a limit: whether it is known, and the words.
-- ?1 name
SELECT CAST(json_array((SELECT count(*) FROM detent_limit WHERE name = ?1),
    (SELECT declared FROM detent_limit WHERE name = ?1)) AS BLOB)
