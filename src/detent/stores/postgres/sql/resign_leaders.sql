-- Give up terms; the row keeps the number.
-- $1 candidate  $2 roles, sorted  $3 terms
WITH given AS MATERIALIZED (
    SELECT leader.role
    FROM unnest($2::text[], $3::bigint[]) AS given (role, term), detent.detent_leader AS leader
    WHERE leader.role = given.role AND leader.term = given.term AND leader.node = $1
    ORDER BY leader.role
    FOR NO KEY UPDATE OF leader
)
UPDATE detent.detent_leader AS leader
SET node = NULL, name = NULL, backend = NULL, lease_until = clock_timestamp()
FROM given
WHERE leader.role = given.role
RETURNING leader.role
