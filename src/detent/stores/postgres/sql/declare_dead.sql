-- Declare nodes dead that are known to be gone.
-- $1 incarnations  $2 reason  $3 whether they have stopped their jobs themselves
WITH gone AS (
    -- FOR UPDATE: not while one of their claims is being made.
    SELECT incarnation
    FROM detent.detent_node
    WHERE incarnation = ANY ($1::uuid[]) AND state <> 'dead'
    ORDER BY incarnation
    FOR UPDATE
)
UPDATE detent.detent_node
SET state = 'dead', dead_at = clock_timestamp(), death = $2, fenced = $3
WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM gone))
RETURNING incarnation
