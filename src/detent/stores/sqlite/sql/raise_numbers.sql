-- Let numbers begin above those that were given before a part of the history was lost.

-- step: given
-- ?1 what is counted
SELECT value FROM detent_fence WHERE name = ?1

-- step: raised
-- ?1 what is counted  ?2 the number after which it goes on
UPDATE detent_fence SET value = ?2 WHERE name = ?1

-- step: all
SELECT name, value FROM detent_fence WHERE name IN ('claim', 'lock', 'inode')

-- step: kept
-- Which file it is on its disk: see marks.py.
-- ?1 its name here  ?2 its inode
INSERT INTO detent_fence (name, value) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
