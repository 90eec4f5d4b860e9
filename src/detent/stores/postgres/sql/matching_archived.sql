-- The newest archived jobs that match.
-- $1 states, empty for all  $2 task  $3 queue  $4 tag  $5 key  $6 lowest id  $7 highest id
-- $8 only ids below  $9 limit: NULL does not filter
SELECT id
FROM detent.detent_archive
WHERE id >= $6::uuid AND id <= $7::uuid AND id < $8::uuid
    AND (cardinality($1::text[]) = 0 OR state = ANY($1))
    AND ($2::text IS NULL OR task = $2) AND ($3::text IS NULL OR queue = $3)
    AND ($4::text IS NULL OR tags @> ARRAY[$4])
    AND ($5::text IS NULL OR idempotency_key = $5 OR unique_key = $5)
ORDER BY id DESC
LIMIT $9
