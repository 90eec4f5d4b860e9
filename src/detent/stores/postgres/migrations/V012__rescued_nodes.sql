-- When the last claim of a dead node was ended: until then a rescue looks for its claims, and not
-- after. So a rescue need not read all claims to learn that none of them is lost.
ALTER TABLE detent.detent_node ADD COLUMN rescued_at timestamptz;
