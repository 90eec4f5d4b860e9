-- Say how many jobs of a queue each node runs at once, whatever its own settings say.
-- $1 queue  $2 slots, NULL for the nodes' own
INSERT INTO detent.detent_queue AS known (name, slots) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET slots = excluded.slots
