-- concurrently
-- Families in the order of a claim. A family is all keys of one task's limit, in one queue and with the
-- same needs, behind no other gate; those of its jobs that are suspects are a family by themselves.
-- Partial, so that only such jobs pay for it.
CREATE INDEX CONCURRENTLY detent_ready_family ON detent.detent_ready (
    (split_part(lane, '#', 1) || CASE WHEN right(lane, 2) = '+!' THEN '+!' ELSE '' END),
    priority, due_at, id
) WHERE split_part(lane, '~', 2) LIKE 'task:%#%' AND split_part(lane, '~', 3) = '';
