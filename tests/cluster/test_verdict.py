"""If these fail, `make chaos` and `make ha` say that all is well whatever the database holds."""

from typing import Final
from uuid import UUID

import pytest

from detent import App
from tests.chaos.tasks import BEGIN, END, Effect
from tests.chaos.verdict import judge
from tests.cluster.database import connected
from tests.cluster.workload import Workload
from tests.ha.trial import EXPIRED, TAKEN

JOB: Final = UUID(int=1)
OTHER: Final = UUID(int=2)
NODE: Final = UUID(int=3)
DONE: Final = f"""
INSERT INTO detent.detent_outcome
    (id, generation, attempt, fence, finished_at, node, state, task, queue)
VALUES ('{JOB}', 0, 1, 7, now(), '{NODE}', 'succeeded', 'chaos', 'default')
"""
ATTEMPT: Final = f"""
INSERT INTO detent.detent_attempt (id, generation, number, kind, ended_at)
VALUES ('{JOB}', 0, 1, '%s', now())
"""
LIVING: Final = f"""
INSERT INTO detent.detent_node (
    incarnation, name, state, lease_until, lease, heartbeat_at, started_at, host, pid, version,
    roles, capabilities, queues
) VALUES (
    '{NODE}', 'one', 'active', now(), '15 s', now(), now(), 'here', 1, '1', '{{}}', '{{}}', '{{}}'
)
"""
EFFECTS: Final = (Effect(BEGIN, JOB, 7, NODE, 1, 1.0), Effect(END, JOB, 7, NODE, 1, 2.0))


def described(broken: list[str]) -> list[str]:
    return [rule.partition(":")[0] for rule in broken]


@pytest.mark.parametrize(
    "change, effects, rule",
    [
        ("", EFFECTS, None),
        (f"DELETE FROM detent.detent_outcome WHERE id = '{JOB}'", EFFECTS, "I1 a committed"),
        ("", (*EFFECTS, EFFECTS[0]), "I2 two runs under one claim"),
        ("", (*EFFECTS, Effect(BEGIN, JOB, 8, NODE, 1, 3.0)), "I3 a completion of an old"),
        ("", EFFECTS[:1], "I5 a success without its effect"),
        ("UPDATE detent.detent_outcome SET state = 'failed'", EFFECTS, "a job did not succeed"),
        ("UPDATE detent.detent_outcome SET attempt = 2", EFFECTS, "I6 an attempt was charged"),
        (ATTEMPT % "failed", EFFECTS, "I6 an attempt was charged"),
        (LIVING, EFFECTS, "a node is left that is not dead"),
    ],
)
async def test_each_rule_can_be_broken(
    postgres_url: str, change: str, effects: tuple[Effect, ...], rule: str | None
) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute(DONE)
        if change:
            await connection.execute(change)
        verdict = await judge(connection, [JOB], effects)
    assert [each[: len(rule or "")] for each in described(verdict.broken)] == (
        [rule] if rule else []
    )


async def test_a_job_that_waits_for_ever_is_found(postgres_url: str) -> None:
    async with App(postgres_url) as app:
        job = await Workload(app).record.enqueue("")
    async with connected(postgres_url) as connection:
        verdict = await judge(connection, [job.id], [])
    assert described(verdict.broken) == ["I1 a committed job is lost", "I1 a job has not ended"]


@pytest.mark.parametrize("kind", ["crashed", "unstarted"])
async def test_a_claim_that_was_taken_from_a_living_node_is_found(
    postgres_url: str, kind: str
) -> None:
    async with connected(postgres_url) as connection:
        assert await connection.fetch(TAKEN) == []
        await connection.execute(ATTEMPT % kind)
        assert [row["id"] for row in await connection.fetch(TAKEN)] == [JOB]


async def test_a_node_that_was_declared_dead_by_its_lease_is_found(postgres_url: str) -> None:
    async with App(postgres_url) as app, connected(postgres_url) as connection:
        await connection.execute(LIVING)
        # Another node has seen the store answer for longer than that lease.
        await connection.execute(
            LIVING.replace(str(NODE), str(OTHER)).replace("'one'", "'witness'")
        )
        await connection.execute(
            "UPDATE detent.detent_node SET steady_since = now() - interval '1 h', "
            "lease_until = now() + interval '1 h' WHERE name = 'witness'"
        )
        await connection.execute(
            "UPDATE detent.detent_node SET heartbeat_at = now() - interval '1 min', "
            "lease_until = now() - interval '45 s' WHERE name = 'one'"
        )
        assert await connection.fetch(EXPIRED) == []
        rescue = await app.store.rescue(10, 3)
        assert [each.incarnation for each in rescue.nodes] == [NODE]
        assert [row["name"] for row in await connection.fetch(EXPIRED)] == ["one"]
