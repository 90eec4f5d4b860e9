-- The server on which a leader was confirmed last.

-- When the server was started on which the leader was confirmed last: a lock that is free says
-- nothing about a leader that another server has known.
ALTER TABLE detent.detent_leader ADD COLUMN server timestamptz;
