-- Move the best due jobs of a family to running; all of it is in detent_claim_family.
-- $1 node incarnation  $2 family  $3 queue  $4 room  $5 how many to look at
-- $6 the lowest aged priority to be taken
-- $7 due times  $8 ids: where scans begin, by priority
-- $9 lanes to leave alone  $10 boost interval in seconds, 0 = off  $11 largest payload to return
SELECT * FROM detent.detent_claim_family(
    $1::uuid, $2::text, $3::text, $4::integer, $5::integer, $6::integer, $7::timestamptz[],
    $8::uuid[], $9::text[], $10::float8, $11::integer
)
