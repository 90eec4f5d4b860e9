-- What is left of a rate: the tokens kept and when, and what passed when.
-- ?1 name
SELECT CAST(json_array(
    (SELECT json_array(tokens, at) FROM detent_bucket WHERE gate = ?1),
    (SELECT json_group_array(json_array(at, number)) FROM detent_pass WHERE gate = ?1)
) AS BLOB)
