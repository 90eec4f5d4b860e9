-- Lanes of jobs that ask for capabilities are found by a node without knowing their names.

-- In the order of bytes, so that the lanes of one queue stand together. Jobs that need nothing are
-- not in it.
CREATE INDEX detent_ready_needy ON detent.detent_ready (lane COLLATE "C")
    WHERE strpos(lane, '+') > 0 AND strpos(lane, '~') = 0;
