-- A lease is over only when a node has seen the store answer for the length of it, and a node that
-- stopped its jobs itself leaves no crashes behind.
ALTER TABLE detent_node ADD COLUMN steady_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE detent_node ADD COLUMN fenced INTEGER NOT NULL DEFAULT 0;
