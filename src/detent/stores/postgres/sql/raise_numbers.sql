-- Let numbers begin in an epoch after that of a number which was given before a part of the history
-- was lost; those that have, go on.
-- $1 the number
SELECT
    setval('detent.detent_fence', fence.last_value + (greatest(
        ($1::bigint >> 40) + 1 - ((detent.detent_epoch() + fence.last_value) >> 40), 0
    ) << 40)),
    setval('detent.detent_lock_fence', lock.last_value + (greatest(
        ($1::bigint >> 40) + 1 - ((detent.detent_epoch() + lock.last_value) >> 40), 0
    ) << 40))
FROM detent.detent_fence AS fence, detent.detent_lock_fence AS lock
