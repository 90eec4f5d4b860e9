-- Wait until nobody fires this schedule, and keep others from it until the transaction ends.
-- $1 name
SELECT name FROM detent.detent_schedule WHERE name = $1 FOR UPDATE
