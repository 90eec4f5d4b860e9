-- The cluster: how nodes died, and queues that are scaled for all nodes at once.

ALTER TABLE detent.detent_node
    ADD COLUMN dead_at timestamptz,
    ADD COLUMN death text;

-- How many jobs of a queue each node runs at once; NULL leaves it to the node.
ALTER TABLE detent.detent_queue ADD COLUMN slots integer;
