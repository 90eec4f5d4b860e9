-- A lease is over only when a node has seen the store answer for the length of it, and a node that
-- stopped its jobs itself leaves no crashes behind.
ALTER TABLE detent.detent_node
    ADD COLUMN steady_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN fenced boolean NOT NULL DEFAULT false;
