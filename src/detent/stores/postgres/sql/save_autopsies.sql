-- Keep what dead nodes held.
-- $1 incarnations  $2 what they held: one array each
UPDATE detent.detent_node AS node
SET autopsy = said.autopsy
FROM unnest($1::uuid[], $2::text[]) AS said (incarnation, autopsy)
WHERE node.incarnation = said.incarnation
