-- Families in the order of a claim. A family is all keys of one task's limit, in one queue and with the
-- same needs, behind no other gate; those of its jobs that are suspects are a family by themselves.
-- Partial, so that only such jobs pay for it.
CREATE INDEX detent_ready_family ON detent_ready (
    substr(lane, 1, instr(lane, '#') - 1) || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END,
    priority, due_at, id
) WHERE instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
    AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0;
