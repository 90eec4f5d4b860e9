-- Let those who waited for ended jobs wait for what these were waiting for themselves.
-- $1 ended jobs  $2 what each waited for: one array each, sorted by the first
UPDATE detent.detent_parked AS parked SET waits_for = mine.heir
FROM (
    SELECT waiting.row, said.heir
    FROM unnest($1::uuid[], $2::uuid[]) AS said (id, heir)
    CROSS JOIN LATERAL (
        SELECT ctid AS row FROM detent.detent_parked WHERE waits_for = said.id OFFSET 0
    ) AS waiting
    WHERE said.heir IS NOT NULL
    OFFSET 0
) AS mine
-- By their place: a join may read all of them.
WHERE parked.ctid = mine.row
