-- The claims in a node's name, in no order: to read them by id would visit each dead row by itself.
-- With 500,000 of those under a held snapshot that took 2,450 ms, and 88 ms from end to end.
-- $1 incarnation
SELECT id, fence FROM detent.detent_running WHERE node = $1
