-- Take a business key of a task that no live job holds, or that its holder has given up.
-- ?1 key  ?2 job  ?3 task
INSERT INTO detent_key (kind, key, scope, job) VALUES ('unique', ?1, ?3, ?2)
ON CONFLICT (kind, key, scope) DO UPDATE SET job = excluded.job
