-- Take a business key that no live job holds, or that its holder has given up.
-- ?1 key  ?2 job
INSERT INTO detent_key (kind, key, job) VALUES ('unique', ?1, ?2)
ON CONFLICT (kind, key) DO UPDATE SET job = excluded.job
