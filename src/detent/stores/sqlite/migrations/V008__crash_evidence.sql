-- What a node held when it died, and whether a job alone can have caused a crash.
ALTER TABLE detent_node ADD COLUMN autopsy TEXT;
ALTER TABLE detent_attempt ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
