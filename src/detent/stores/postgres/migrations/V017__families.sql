-- Families: all keys of one task's limit are claimed together, under one lock for all of them.

-- The number under which the jobs of one key take turns and are counted. By the server, since a claim
-- of a family meets thousands of keys.
CREATE FUNCTION detent.detent_gate_number(gate_ text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(('detent.detent_gate ' || gate_) COLLATE "C", 0)
$$;

-- Keep claims of a whole family away while single lanes of it are claimed from, which do not mind each
-- other; tell whether that was possible within a moment. `definition_` is the name of its limit.
CREATE FUNCTION detent.detent_enter_family(definition_ text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    key_   bigint := detent.detent_gate_number(definition_ || '*');
    usual_ text   := current_setting('lock_timeout');
BEGIN
    IF pg_try_advisory_xact_lock_shared(key_) THEN
        RETURN true;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', '30ms', true);
        PERFORM pg_advisory_xact_lock_shared(key_);
        PERFORM set_config('lock_timeout', usual_, true);
        RETURN true;
    EXCEPTION WHEN lock_not_available THEN
        -- With this block its setting is undone.
        RETURN false;
    END;
END
$$;

-- Until now the numbers of keys were made by the nodes. No claim that still counts by those may be on
-- its way.
LOCK TABLE detent.detent_running, detent.detent_hold IN SHARE ROW EXCLUSIVE MODE;
UPDATE detent.detent_running
SET task_gate = detent.detent_gate_number(substring(lane FROM '~(task:[^~*+#]*#[^~*+]*)'))
WHERE task_gate IS NOT NULL AND substring(lane FROM '~(task:[^~*+#]*#[^~*+]*)') IS NOT NULL;
-- A hold means something while its job is pending or parked: there its lane says what it is of.
UPDATE detent.detent_hold AS hold
SET gate = detent.detent_gate_number(substring(place.lane FROM '~(task:[^~*+#]*#[^~*+]*)'))
FROM (
    SELECT id, lane FROM detent.detent_ready
    UNION ALL
    SELECT id, lane FROM detent.detent_parked
) AS place
WHERE place.id = hold.job
    AND substring(place.lane FROM '~(task:[^~*+#]*#[^~*+]*)') IS NOT NULL;

-- Say how many jobs of each lane may pass its gates, for the statement that then takes them.
-- node_         incarnation
-- lanes_ queues_ rooms_ frees_: one for each lane; of those under a rate at most frees_ may pass
-- least_        the lowest aged priority that may pass, for each lane
-- shares_       the gate of each lane's fair share, or NULL
-- due_at_ ids_  where scans begin, five priorities for each lane, as in claim_jobs
-- lane_gates_   the numbers of the gates of all lanes, lane after lane, with their weights_
-- ends_         for each lane, how many of those there are up to its own
-- gates_ definitions_ keys_ required_ places_ wishes_ floors_ mosts_ sinces_: one for each gate
--     its lock is its key, for a task's key the number that the server knows; its place among the
--     limits of a running job 1 to 3, or 0 for none
--     how much is asked of it in all
--     its floor: no claim with an older fence counts, if server_ is still the same. Fences of one
--     gate only grow, since they are given out under its lock
--     how much was used at most, by claims up to a fence; NULL if nobody has counted
-- many_         of the one lane as many are due as there is room for, for all that is known
CREATE OR REPLACE FUNCTION detent.detent_open_gates(
    node_ uuid, lanes_ text[], queues_ text[], rooms_ integer[], frees_ integer[],
    least_ integer[], shares_ text[], due_at_ timestamptz[], ids_ uuid[], lane_gates_ integer[],
    weights_ integer[], ends_ integer[],
    gates_ text[], definitions_ text[], keys_ bigint[], required_ boolean[], places_ integer[],
    wishes_ bigint[], floors_ bigint[], mosts_ bigint[], sinces_ bigint[], server_ float8,
    many_ boolean, limit_ integer, boost_ float8
) RETURNS TABLE (
    number integer, lane text, room integer,
    -- The only job that may be taken, where one at a time may run: they keep their order.
    only_one uuid,
    -- What its running jobs count at, and how much each takes of its resource.
    resource_gate bigint, task_gate bigint, queue_gate bigint, held integer,
    blocked_by text, wait float8, due_in float8, now timestamptz,
    -- What is most urgent of it: its priority, and for how long it has waited.
    priority integer, waited float8,
    -- What the limit of its share says.
    weight integer,
    -- Whether the rest of a gate is kept for it.
    keeps boolean,
    -- The oldest fence that counts at each gate, how much of it is used at most with what is let
    -- in, and since when this server runs.
    floors bigint[], mosts bigint[], server float8
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    gate_      record;
    lane_      record;
    i          integer;
    -- Of each gate, if it has a limit: how much may still pass by number, and by rate.
    limited_   boolean[] := array_fill(false, ARRAY[cardinality(gates_)]);
    -- Whether another claim keeps it locked, and whether none has been waited for in vain.
    busy_      boolean[] := array_fill(false, ARRAY[cardinality(gates_)]);
    patient_   boolean   := true;
    counted_   float8[]  := array_fill(NULL::float8, ARRAY[cardinality(gates_)]);
    rated_     float8[]  := array_fill(NULL::float8, ARRAY[cardinality(gates_)]);
    begun_     float8[]  := array_fill(NULL::float8, ARRAY[cardinality(gates_)]);
    -- And what a job needs for which the rest is kept, or light ones would overtake it for ever.
    kept_      integer[] := array_fill(0, ARRAY[cardinality(gates_)]);
    -- The job that holds an ordered gate, the lane in which it is pending, and when it is due.
    holders_   uuid[]    := array_fill(NULL::uuid, ARRAY[cardinality(gates_)]);
    homes_     text[]    := array_fill(NULL::text, ARRAY[cardinality(gates_)]);
    dues_      timestamptz[] := array_fill(NULL::timestamptz, ARRAY[cardinality(gates_)]);
    holding_   integer;
    rules_     detent.detent_limit[] := array_fill(
        NULL::detent.detent_limit, ARRAY[cardinality(gates_)]);
    rule_      detent.detent_limit;
    first_     integer := 1;
    number_    integer;
    wish_      integer;
    here_      integer;
    narrow_    integer;
    total_     integer := 0;
    definition_ text;
BEGIN
    server := date_part('epoch', pg_postmaster_start_time());
    IF server IS DISTINCT FROM server_ THEN
        -- Another server, or the same after a crash, may give out lower fences than the last one.
        floors_ := array_fill(0::bigint, ARRAY[cardinality(gates_)]);
        mosts_ := array_fill(NULL::bigint, ARRAY[cardinality(gates_)]);
    END IF;
    floors := array_fill(NULL::bigint, ARRAY[cardinality(gates_)]);
    mosts := array_fill(NULL::bigint, ARRAY[cardinality(gates_)]);
    keys_ := ARRAY(
        SELECT CASE WHEN asked.place = 2 AND right(asked.definition, 1) = '#'
            THEN detent.detent_gate_number(asked.gate) ELSE asked.key END
        FROM unnest(gates_, definitions_, keys_, places_) WITH ORDINALITY
            AS asked (gate, definition, key, place, number)
        ORDER BY asked.number
    );
    -- A claim of a family passes any of its keys: until this one has committed there is none.
    FOR definition_ IN
        SELECT DISTINCT asked.definition
        FROM unnest(definitions_, places_) AS asked (definition, place)
        WHERE asked.place = 2 AND right(asked.definition, 1) = '#'
        ORDER BY asked.definition
    LOOP
        IF NOT detent.detent_enter_family(definition_) THEN
            FOR i IN 1 .. cardinality(definitions_) LOOP
                busy_[i] := busy_[i] OR definitions_[i] = definition_;
            END LOOP;
        END IF;
    END LOOP;
    -- Gates are locked in one order by all, and each statement after this sees what was committed
    -- while it waited: so what is counted below is exact. The locks are held until the claim is
    -- committed. All of it is one call from the client, since one that is stopped between two would
    -- keep the gates locked. A gate that another claim keeps locked for longer than a moment counts as
    -- full for a moment: who asks for others, too, must not wait for it.
    FOR gate_ IN
        SELECT asked.number, asked.key
        FROM unnest(definitions_, keys_) WITH ORDINALITY AS asked (definition, key, number)
        WHERE EXISTS (
            SELECT 1 FROM detent.detent_limit AS known WHERE known.name = asked.definition
        )
        ORDER BY asked.key
    LOOP
        limited_[gate_.number] := true;
        IF NOT busy_[gate_.number] AND NOT pg_try_advisory_xact_lock(gate_.key) THEN
            patient_ := patient_ AND detent.detent_wait_for_gate(gate_.key);
            busy_[gate_.number] := NOT patient_;
        END IF;
    END LOOP;
    now := clock_timestamp();
    -- As in claim_jobs: who is dead or out of time cannot claim.
    PERFORM 1 FROM detent.detent_node AS node
    WHERE node.incarnation = node_ AND node.state = 'active' AND node.lease_until > now
    FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- All gates at once: a statement for each would take longer than what it does. Of what was
    -- counted before some may have ended; with those who have come since it is the most that can be
    -- used, and if that leaves room for all that is asked, there is no need to count.
    FOR gate_ IN
        SELECT asked.number, known AS rule, coalesce(bound.most, used.weight) AS used,
            CASE WHEN bound.most IS NULL THEN used.fence ELSE asked.floor END AS floor,
            hold.job AS holder, hold.lane AS home, hold.due_at AS holder_due_at
        FROM unnest(keys_, definitions_, places_, wishes_, floors_, mosts_, sinces_)
            WITH ORDINALITY AS asked (key, definition, place, wish, floor, most, since, number)
        CROSS JOIN LATERAL (
            SELECT * FROM detent.detent_limit AS known WHERE known.name = asked.definition OFFSET 0
        ) AS known
        LEFT JOIN LATERAL (
            SELECT asked.most + coalesce(sum(held.weight), 0) AS most
            FROM detent.detent_held AS held
            WHERE asked.most IS NOT NULL
                AND held.place = asked.place AND held.gate = asked.key AND held.fence > asked.since
        ) AS bound ON bound.most + asked.wish <= known.concurrency
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(held.weight), 0) AS weight, min(held.fence) AS fence
            FROM detent.detent_held AS held
            WHERE bound.most IS NULL
                AND held.place = asked.place AND held.gate = asked.key AND held.fence >= asked.floor
        ) AS used
        LEFT JOIN LATERAL (
            -- By the same snapshot as the count: who is put back gives up its permit and takes this.
            SELECT hold.job, ready.lane, ready.due_at
            FROM detent.detent_hold AS hold
            LEFT JOIN LATERAL (
                SELECT ready.lane, ready.due_at FROM detent.detent_ready AS ready
                WHERE ready.id = hold.job OFFSET 0
            ) AS ready ON true
            LEFT JOIN LATERAL (
                SELECT parked.id FROM detent.detent_parked AS parked
                WHERE parked.id = hold.job OFFSET 0
            ) AS parked ON true
            -- Nothing is read for gates without an order.
            WHERE hold.gate = CASE WHEN known.ordered THEN asked.key END
                AND (ready.lane IS NOT NULL OR parked.id IS NOT NULL)
            OFFSET 0
        ) AS hold ON true
        WHERE limited_[asked.number] AND NOT busy_[asked.number]
    LOOP
        rule_ := gate_.rule;
        rules_[gate_.number] := rule_;
        holders_[gate_.number] := gate_.holder;
        homes_[gate_.number] := gate_.home;
        dues_[gate_.number] := gate_.holder_due_at;
        IF rule_.concurrency IS NOT NULL THEN
            counted_[gate_.number] := rule_.concurrency - gate_.used;
            floors[gate_.number] := gate_.floor;
            mosts[gate_.number] := gate_.used;
        END IF;
        IF rule_.rate_count IS NOT NULL THEN
            rated_[gate_.number] := detent.detent_rate_left(
                gates_[gate_.number], rule_.rate_count, rule_.rate_per,
                coalesce(rule_.burst, rule_.rate_count), rule_.algorithm, now);
            begun_[gate_.number] := rated_[gate_.number];
        END IF;
    END LOOP;
    FOR j IN 1 .. cardinality(lane_gates_) LOOP
        -- Where a gate may be the narrower, what is due is counted.
        number_ := lane_gates_[j];
        many_ := many_ AND rated_[number_] IS NULL
            AND coalesce(counted_[number_] > wishes_[number_], true);
    END LOOP;
    -- And all lanes: how many are due, up to what was asked for, which is the best, and when the next
    -- one is due that is not among them. Of the index alone.
    FOR lane_ IN
        SELECT scan.number,
            CASE WHEN many_ THEN scan.room + 1 ELSE due.count END AS count,
            best.id AS best, best.priority, best.due_at AS best_due_at, next.due_at, next.head,
            (SELECT known.weight FROM detent.detent_limit AS known WHERE known.name = scan.share)
                AS weight,
            EXISTS (
                SELECT 1 FROM detent.detent_queue AS queue
                WHERE queue.name = scan.queue AND queue.paused_at IS NOT NULL
            ) AS paused
        FROM unnest(lanes_, queues_, rooms_, least_, shares_)
            WITH ORDINALITY AS scan (lane, queue, room, least, share, number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM generate_series(0, 4) AS level (priority)
            CROSS JOIN LATERAL (
                SELECT ready.due_at
                FROM detent.detent_ready AS ready
                WHERE ready.lane = scan.lane
                    AND ready.priority = level.priority::smallint
                    AND (ready.due_at, ready.id) >= (
                        least(
                            due_at_[(scan.number - 1) * 5 + level.priority + 1],
                            now - interval '1 second'
                        ),
                        ids_[(scan.number - 1) * 5 + level.priority + 1]
                    )
                    AND ready.due_at <= now
                ORDER BY ready.due_at, ready.id
                -- And one more, to know whether any is left.
                LIMIT CASE WHEN many_ THEN 0 ELSE scan.room + 1 END
            ) AS head
            WHERE level.priority + CASE WHEN boost_ > 0 THEN
                floor(date_part('epoch', now - head.due_at) / boost_) ELSE 0 END >= scan.least
        ) AS due
        LEFT JOIN LATERAL (
            SELECT head.id, level.priority, head.due_at
            FROM generate_series(0, 4) AS level (priority)
            CROSS JOIN LATERAL (
                SELECT ready.due_at, ready.id
                FROM detent.detent_ready AS ready
                WHERE ready.lane = scan.lane
                    AND ready.priority = level.priority::smallint
                    AND (ready.due_at, ready.id) >= (
                        least(
                            due_at_[(scan.number - 1) * 5 + level.priority + 1],
                            now - interval '1 second'
                        ),
                        ids_[(scan.number - 1) * 5 + level.priority + 1]
                    )
                    AND ready.due_at <= now
                ORDER BY ready.due_at, ready.id
                -- Of many the last one that is taken tells how urgent the rest is.
                LIMIT CASE WHEN many_ THEN 0 ELSE 1 END
            ) AS head
            ORDER BY
                level.priority + CASE WHEN boost_ > 0 THEN
                    floor(date_part('epoch', now - head.due_at) / boost_) ELSE 0 END DESC,
                head.due_at,
                head.id
            LIMIT 1
        ) AS best ON true
        LEFT JOIN LATERAL (
            SELECT min(head.due_at) AS due_at,
                -- Of those that are due the one with the highest aged priority, then the oldest.
                max(ARRAY[
                    level.priority + CASE WHEN boost_ > 0 THEN floor(head.waited / boost_) ELSE 0 END,
                    head.waited, level.priority
                ]) FILTER (WHERE head.waited >= 0) AS head
            -- None of these where it is known that more are due.
            FROM generate_series(
                0, CASE WHEN due.count <= scan.room AND NOT many_ THEN 4 ELSE -1 END
            ) AS level (priority)
            CROSS JOIN LATERAL (
                SELECT ready.due_at, date_part('epoch', now - ready.due_at) AS waited
                FROM detent.detent_ready AS ready
                WHERE ready.lane = scan.lane
                    AND ready.priority = level.priority::smallint
                    -- Behind what has aged enough, and behind dead rows; as one bound, since of two
                    -- the index may choose the one that lets it walk over the whole lane.
                    AND ready.due_at >= greatest(
                        interval '1 microsecond' + CASE
                            WHEN level.priority >= scan.least THEN now
                            WHEN boost_ > 0 THEN
                                now - (scan.least - level.priority) * boost_ * interval '1 second'
                            ELSE '-infinity' END,
                        least(
                            due_at_[(scan.number - 1) * 5 + level.priority + 1],
                            now - interval '1 second'
                        )
                    )
                ORDER BY ready.due_at, ready.id
                LIMIT 1
            ) AS head
        ) AS next ON true
        ORDER BY scan.number
    LOOP
        i := lane_.number;
        number := i;
        lane := lanes_[i];
        wish_ := least(rooms_[i], limit_ - total_);
        room := wish_;
        narrow_ := NULL;
        only_one := NULL;
        wait := NULL;
        resource_gate := NULL;
        task_gate := NULL;
        queue_gate := NULL;
        held := NULL;
        blocked_by := NULL;
        keeps := false;
        holding_ := NULL;
        weight := lane_.weight;
        IF lane_.paused THEN
            room := 0;
            -- Nothing is kept for it either.
            wish_ := 0;
            -- Its last gate is that of its queue.
            narrow_ := ends_[i];
        END IF;
        FOR j IN first_ .. ends_[i] LOOP
            number_ := lane_gates_[j];
            IF busy_[number_] THEN
                room := 0;
                narrow_ := j;
                CONTINUE;
            END IF;
            IF NOT limited_[number_] THEN
                -- A limit that nobody has declared must not be exceeded either.
                IF required_[number_] THEN
                    room := 0;
                    narrow_ := j;
                END IF;
                CONTINUE;
            END IF;
            IF counted_[number_] IS NOT NULL THEN
                CASE places_[number_]
                    WHEN 1 THEN
                        resource_gate := keys_[number_];
                        held := nullif(weights_[j], 1);
                    WHEN 2 THEN
                        task_gate := keys_[number_];
                    WHEN 3 THEN
                        queue_gate := keys_[number_];
                    ELSE
                        NULL;
                END CASE;
            END IF;
            IF rated_[number_] IS NOT NULL THEN
                wish_ := least(wish_, frees_[i]);
                room := least(room, wish_);
            END IF;
            here_ := CASE WHEN kept_[number_] > 0 THEN 0 ELSE greatest(floor(
                (least(counted_[number_], rated_[number_]) + 1e-6) / weights_[j]
            ), 0) END;
            -- Also one that will be full by this: nobody need ask to hear so.
            IF here_ <= room THEN
                room := here_;
                narrow_ := j;
            END IF;
            IF holders_[number_] IS NOT NULL THEN
                holding_ := j;
            END IF;
        END LOOP;
        IF holding_ IS NOT NULL THEN
            number_ := lane_gates_[holding_];
            IF homes_[number_] = lane AND dues_[number_] <= now THEN
                -- It goes first, however urgent others are. They are due when it is taken.
                lane_.best := holders_[number_];
                lane_.count := lane_.count + 1;
            ELSE
                room := 0;
                narrow_ := holding_;
            END IF;
        END IF;
        here_ := least(lane_.count, greatest(room, 1));
        only_one := CASE WHEN room = 1 AND lane_.count > 0 THEN lane_.best END;
        -- What is left when these are taken is due now, unless all that are due are among them.
        due_in := CASE WHEN lane_.count > room THEN 0
            ELSE date_part('epoch', lane_.due_at - now) END;
        IF lane_.count > room THEN
            priority := lane_.priority;
            waited := date_part('epoch', now - lane_.best_due_at);
        ELSE
            priority := lane_.head[3];
            waited := lane_.head[2];
        END IF;
        IF narrow_ IS NOT NULL AND here_ >= room THEN
            number_ := lane_gates_[narrow_];
            blocked_by := gates_[number_];
        END IF;
        room := least(room, here_);
        total_ := total_ + room;
        FOR j IN first_ .. ends_[i] LOOP
            number_ := lane_gates_[j];
            counted_[number_] := counted_[number_] - weights_[j] * room;
            mosts[number_] := mosts[number_] + weights_[j] * room;
            rated_[number_] := rated_[number_] - weights_[j] * room;
        END LOOP;
        IF blocked_by IS NOT NULL THEN
            number_ := lane_gates_[narrow_];
            rule_ := rules_[number_];
            keeps := weights_[narrow_] > 1 AND room = 0 AND wish_ > 0 AND lane_.count > 0
                AND limited_[number_] AND NOT busy_[number_]
                AND coalesce(weights_[narrow_] <= rule_.concurrency, true)
                AND coalesce(
                    weights_[narrow_] <= coalesce(rule_.burst, rule_.rate_count), true);
            kept_[number_] := greatest(
                kept_[number_], CASE WHEN keeps THEN weights_[narrow_] ELSE 0 END);
            here_ := greatest(weights_[narrow_], kept_[number_]);
            IF rated_[number_] + 1e-6 < here_
                AND coalesce(counted_[number_], here_) >= here_
            THEN
                wait := detent.detent_rate_wait(gates_[number_], rule_.rate_count,
                    rule_.rate_per, coalesce(rule_.burst, rule_.rate_count), rule_.algorithm, now,
                    rated_[number_], here_);
            END IF;
            IF busy_[number_] THEN
                wait := 0.05 * (1 + random());
            ELSIF narrow_ = holding_ AND dues_[number_] > now THEN
                wait := date_part('epoch', dues_[number_] - now);
            END IF;
        END IF;
        first_ := ends_[i] + 1;
        RETURN NEXT;
    END LOOP;
    FOR i IN 1 .. cardinality(gates_) LOOP
        IF rated_[i] < begun_[i] THEN
            rule_ := rules_[i];
            PERFORM detent.detent_rate_use(gates_[i], rule_.rate_count, rule_.rate_per,
                coalesce(rule_.burst, rule_.rate_count), rule_.algorithm, now, begun_[i],
                (begun_[i] - rated_[i])::integer);
        END IF;
    END LOOP;
END $$;

-- Move the best due jobs of a family to running, of each key no more than its limit lets in.
-- node_    incarnation
-- family_  the lane of each of them, up to its key
-- room_ walk_ least_: how many at most, how many to look at, and the lowest aged priority
-- due_at_ ids_: where scans begin, by priority, as in claim_jobs
-- without_ lanes that are claimed from by themselves
-- All rows but the last are claims. The last has no id, and as args JSON: why nothing was claimed or
-- NULL; how many due jobs were seen, and how many of those their keys keep out; the priority of the
-- most urgent that was left, for how long it has waited; seconds until the next is due, if all that are
-- due were seen; how many keys were seen; where the next scan begins, by priority; lanes of which many
-- jobs are kept out.
CREATE FUNCTION detent.detent_claim_family(
    node_ uuid, family_ text, queue_ text, room_ integer, walk_ integer, least_ integer,
    due_at_ timestamptz[], ids_ uuid[], without_ text[], boost_ float8, inline_ integer
) RETURNS TABLE (
    id uuid, fence bigint, task text, lane text, priority smallint, due_at timestamptz,
    attempt integer, crashes smallint, generation integer, hooks smallint, args bytea, codec text,
    options bytea, params bytea, tags text[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    definition_ text := split_part(family_, '~', 2) || '#';
    key_        bigint := detent.detent_gate_number(split_part(family_, '~', 2) || '#*');
    at_         integer := strpos(family_, '~') + 1;
    now_        timestamptz;
    rule_       detent.detent_limit;
    why_        text;
BEGIN
    -- As in detent_open_gates: what is counted after this is exact, and nobody waits for long.
    IF NOT pg_try_advisory_xact_lock(key_) AND NOT detent.detent_wait_for_gate(key_) THEN
        why_ := 'busy';
    END IF;
    now_ := clock_timestamp();
    PERFORM 1 FROM detent.detent_node AS node
    WHERE node.incarnation = node_ AND node.state = 'active' AND node.lease_until > now_
    FOR KEY SHARE;
    IF NOT FOUND THEN
        why_ := 'dead';
    END IF;
    SELECT * INTO rule_ FROM detent.detent_limit AS known WHERE known.name = definition_;
    IF why_ IS NULL AND (rule_.concurrency IS NULL OR rule_.rate_count IS NOT NULL) THEN
        why_ := 'refused';
    END IF;
    IF why_ IS NULL THEN
        SELECT CASE WHEN queue.limited THEN 'refused' WHEN queue.paused_at IS NOT NULL THEN 'paused' END
        INTO why_
        FROM detent.detent_queue AS queue WHERE queue.name = queue_;
    END IF;
    IF why_ IS NOT NULL THEN
        args := convert_to(json_build_array(why_)::text, 'UTF8');
        RETURN NEXT;
        RETURN;
    END IF;
    RETURN QUERY
    WITH heads AS MATERIALIZED (
        -- The first of each priority, merged: as far as this goes, nothing comes before any of them.
        SELECT head.row, head.id, head.lane, head.due_at, level.priority, head.age,
            detent.detent_gate_number(substr(head.lane, at_)) AS gate
        FROM generate_series(0, 4) AS level (priority)
        CROSS JOIN LATERAL (
            SELECT ready.ctid AS row, ready.id, ready.lane, ready.due_at,
                level.priority + CASE WHEN boost_ > 0 THEN
                    floor(date_part('epoch', now_ - ready.due_at) / boost_) ELSE 0 END AS age
            FROM detent.detent_ready AS ready
            WHERE split_part(ready.lane, '#', 1)
                    || CASE WHEN right(ready.lane, 2) = '+!' THEN '+!' ELSE '' END = family_
                AND split_part(ready.lane, '~', 2) LIKE 'task:%#%'
                AND split_part(ready.lane, '~', 3) = ''
                AND ready.priority = level.priority::smallint
                AND (ready.due_at, ready.id) >= (
                    least(due_at_[level.priority + 1], now_ - interval '1 second'),
                    ids_[level.priority + 1]
                )
                AND ready.due_at <= now_
            ORDER BY ready.due_at, ready.id
            LIMIT walk_
        ) AS head
        ORDER BY head.age DESC, head.due_at, head.id
        LIMIT walk_
    ), ranked AS (
        SELECT heads.*, row_number() OVER (
            PARTITION BY heads.gate ORDER BY heads.age DESC, heads.due_at, heads.id
        ) AS rank
        FROM heads
        WHERE heads.lane <> ALL (without_)
    ), judged AS MATERIALIZED (
        -- By one snapshot: who is put back gives up its permit and takes the hold.
        SELECT ranked.lane, ranked.id, ranked.due_at, ranked.priority, ranked.age, ranked.rank,
            coalesce(hold.row, ranked.row) AS row,
            ranked.rank <= rule_.concurrency - used.count AND coalesce(hold.may, true) AS may
        FROM ranked
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM (
                SELECT 1 FROM detent.detent_running AS running
                WHERE running.task_gate = ranked.gate AND ranked.rank <= rule_.concurrency
                -- So that it is read through its index, whatever the plan was made for.
                ORDER BY running.fence
                LIMIT rule_.concurrency
            ) AS running
        ) AS used
        LEFT JOIN LATERAL (
            -- The job that was put back goes first, however urgent others are; unless it stands
            -- elsewhere, or is not due. Nothing is read for gates without an order.
            SELECT ready.row,
                coalesce(ready.lane = ranked.lane AND ready.due_at <= now_, false) AS may
            FROM detent.detent_hold AS hold
            LEFT JOIN LATERAL (
                SELECT ready.ctid AS row, ready.lane, ready.due_at
                FROM detent.detent_ready AS ready
                WHERE ready.id = hold.job OFFSET 0
            ) AS ready ON true
            LEFT JOIN LATERAL (
                SELECT parked.id FROM detent.detent_parked AS parked
                WHERE parked.id = hold.job OFFSET 0
            ) AS parked ON true
            WHERE rule_.ordered AND ranked.rank = 1 AND hold.gate = ranked.gate
                AND (ready.lane IS NOT NULL OR parked.id IS NOT NULL)
            OFFSET 0
        ) AS hold ON true
    ), picked AS MATERIALIZED (
        SELECT judged.row FROM judged
        WHERE judged.may AND judged.age >= least_
        ORDER BY judged.age DESC, judged.due_at, judged.id
        LIMIT room_
    ), taken AS (
        -- Of what somebody has locked nothing else of the same key takes the place.
        DELETE FROM detent.detent_ready AS ready
        WHERE ready.ctid = ANY (ARRAY(
            SELECT ready.ctid FROM detent.detent_ready AS ready
            WHERE ready.ctid = ANY (ARRAY(SELECT picked.row FROM picked))
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING ready.id, ready.due_at, ready.attempt, ready.generation, ready.priority,
            ready.crashes, ready.hooks, ready.lane
    ), claimed AS (
        INSERT INTO detent.detent_running AS running (
            id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks,
            lane, task_gate
        )
        SELECT taken.id, (SELECT detent.detent_epoch() + nextval('detent.detent_fence')), node_,
            now_, taken.due_at, taken.attempt, taken.generation, taken.priority, taken.crashes,
            taken.hooks | 2::smallint, taken.lane,
            detent.detent_gate_number(substr(taken.lane, at_))
        FROM taken
        RETURNING running.id, running.fence, running.due_at, running.attempt, running.generation,
            running.priority, running.crashes, running.hooks, running.lane
    ), best AS (
        SELECT claimed.id, claimed.fence, job.task, claimed.lane, claimed.priority, claimed.due_at,
            claimed.attempt, claimed.crashes, claimed.generation, claimed.hooks,
            CASE WHEN octet_length(job.args) <= inline_ THEN job.args END AS args,
            job.codec, job.options, job.params, job.tags
        FROM claimed
        CROSS JOIN LATERAL (
            SELECT * FROM detent.detent_job AS job WHERE job.id = claimed.id OFFSET 0
        ) AS job
        ORDER BY
            claimed.priority + CASE WHEN boost_ > 0 THEN
                floor(date_part('epoch', now_ - claimed.due_at) / boost_) ELSE 0 END DESC,
            claimed.due_at,
            claimed.id
    )
    SELECT * FROM best
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        convert_to(json_build_array(
            NULL,
            (SELECT count(*) FROM heads),
            (SELECT count(*) FROM judged WHERE NOT judged.may),
            (
                -- Those that were picked come first.
                SELECT json_build_array(
                    judged.priority, date_part('epoch', now_ - judged.due_at)
                )
                FROM judged
                WHERE judged.may
                    AND (SELECT count(*) FROM picked)
                        < (SELECT count(*) FROM judged WHERE judged.may)
                ORDER BY judged.age DESC, judged.due_at, judged.id
                LIMIT 1 OFFSET (SELECT count(*) FROM picked)
            ),
            (
                -- They are in order.
                SELECT json_build_array(heads.priority, date_part('epoch', now_ - heads.due_at))
                FROM heads
                LIMIT 1 OFFSET walk_ - 1
            ),
            (
                SELECT date_part('epoch', min(next.due_at) - now_)
                FROM generate_series(0, 4) AS level (priority)
                CROSS JOIN LATERAL (
                    SELECT ready.due_at
                    FROM detent.detent_ready AS ready
                    WHERE split_part(ready.lane, '#', 1)
                            || CASE WHEN right(ready.lane, 2) = '+!' THEN '+!' ELSE '' END
                            = family_
                        AND split_part(ready.lane, '~', 2) LIKE 'task:%#%'
                        AND split_part(ready.lane, '~', 3) = ''
                        AND ready.priority = level.priority::smallint
                        AND ready.due_at > now_
                    ORDER BY ready.due_at, ready.id
                    LIMIT 1
                ) AS next
            ),
            (SELECT count(*) FROM judged WHERE judged.rank = 1),
            (
                SELECT json_agg(json_build_array(
                    first.priority, round(date_part('epoch', first.due_at) * 1e6)::bigint, first.id
                ))
                FROM (SELECT DISTINCT heads.priority FROM heads) AS level
                CROSS JOIN LATERAL (
                    (
                        SELECT 1 AS place, heads.priority, heads.due_at, heads.id FROM heads
                        WHERE heads.priority = level.priority AND heads.lane <> ALL (without_)
                        ORDER BY heads.due_at, heads.id
                        LIMIT 1
                    )
                    UNION ALL
                    (
                        -- Behind lanes that are claimed from by themselves, if there are no others.
                        SELECT 2, heads.priority, heads.due_at, heads.id FROM heads
                        WHERE heads.priority = level.priority AND cardinality(without_) > 0
                        ORDER BY heads.due_at DESC, heads.id DESC
                        LIMIT 1
                    )
                    ORDER BY 1
                    LIMIT 1
                ) AS first
            ),
            (
                SELECT json_agg(crowd.lane)
                FROM (
                    SELECT judged.lane FROM judged
                    WHERE NOT judged.may
                    GROUP BY judged.lane
                    HAVING count(*) >= greatest(walk_ / 16, 8)
                    ORDER BY count(*) DESC, judged.lane
                    LIMIT 16
                ) AS crowd
            )
        )::text, 'UTF8'),
        NULL::text, NULL::bytea, NULL::bytea, NULL::text[];
END $$;
