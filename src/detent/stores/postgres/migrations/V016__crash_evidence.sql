-- What a node held when it died, and whether a job alone can have caused a crash.
ALTER TABLE detent.detent_node ADD COLUMN autopsy text;
ALTER TABLE detent.detent_attempt ADD COLUMN alone boolean NOT NULL DEFAULT false;
