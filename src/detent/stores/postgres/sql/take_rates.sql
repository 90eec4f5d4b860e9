-- Answer asks for rates, in order.
-- $1 names  $2 keys of their locks  $3 counts  $4 times in seconds  $5 bursts  $6 algorithms
-- $7 how many are asked for: arrays of one length
SELECT * FROM detent.detent_take(
    $1::text[], $2::bigint[], $3::integer[], $4::float8[], $5::integer[], $6::text[], $7::integer[]
)
