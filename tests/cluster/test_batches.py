"""If these fail, a node that dies in the middle of a batch takes jobs with it."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from detent import App, State
from tests.cluster.batching import SIZE, Batching, Order, Parcel
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.processes import ROOT, NodeProcess
from tests.cluster.workload import Execution

JOBS = 230
SLOTS = 2
# As many crashes that no other job can have caused are proof.
PROOF = 3


@pytest.fixture
async def batching(postgres_url: str) -> AsyncIterator[Batching]:
    async with App(postgres_url) as app:
        yield Batching(app)


@pytest.fixture
def nodes() -> Iterator[list[NodeProcess]]:
    nodes: list[NodeProcess] = []
    yield nodes
    for node in nodes:
        node.close()
        print(node.said()[-3000:])  # noqa: T201  for whoever looks


def start_node(nodes: list[NodeProcess], url: str, *options: str) -> NodeProcess:
    nodes.append(NodeProcess("tests.cluster.batching:app", url, *options, cwd=ROOT))
    return nodes[-1]


async def test_a_node_killed_in_the_middle_of_a_batch_loses_nothing(
    batching: Batching, nodes: list[NodeProcess], postgres_url: str, tmp_path: Path
) -> None:
    executions, released = tmp_path / "executions", tmp_path / "released"
    order = Order(executions=str(executions), until=str(released))

    def start() -> NodeProcess:
        return start_node(nodes, postgres_url, "--concurrency", str(SLOTS))

    jobs = await batching.app.enqueue_many([batching.together.bind(order) for _ in range(JOBS)])
    doomed = start()

    async def two_batches_run() -> bool:
        return len(Execution.read_all(executions)) == SLOTS * SIZE

    await until(two_batches_run, "two full batches")
    doomed.kill()
    released.touch()
    living = start()
    async with connected(postgres_url) as connection:
        await until_all_ended(connection)
    infos = [await job.info() for job in jobs]
    assert {(info.state, info.attempt) for info in infos} == {(State.SUCCEEDED, 1)}
    runs = Execution.read_all(executions)
    assert Counter(run.node for run in runs) == {doomed.id: SLOTS * SIZE, living.id: JOBS}
    assert len({run.job for run in runs}) == JOBS
    sizes = Counter([await job.result(timeout=1) for job in jobs])
    assert max(sizes) > 1, "they were batched again"


@pytest.mark.slow
async def test_an_item_that_kills_its_process_fails_alone(
    batching: Batching, nodes: list[NodeProcess], postgres_url: str, tmp_path: Path
) -> None:
    """Whoever shared a batch with it is struck too, and is not charged with what it did."""
    executions = tmp_path / "executions"
    parcels = [Parcel(executions=str(executions), poison=number == 20) for number in range(120)]
    jobs = await batching.app.enqueue_many([batching.deadly.bind(parcel) for parcel in parcels])
    start_node(nodes, postgres_url, "--processes", "1", "--concurrency", str(SLOTS))
    async with connected(postgres_url) as connection:
        await until_all_ended(connection, patience=180)
    infos = [await job.info() for job in jobs]
    poison = infos.pop(20)
    assert (poison.state, poison.attempt) == (State.FAILED, 1)
    attempts = await batching.app.jobs.attempts(poison.id)
    # Before that it crashed together with others, and may have looked as if it had not begun: how
    # often depends on when the node noticed what.
    assert {attempt.kind for attempt in attempts} <= {"crashed", "unstarted"}
    proof = [attempt.kind for attempt in attempts if attempt.alone]
    assert proof == ["crashed"] * PROOF
    others = [await batching.app.jobs.attempts(info.id) for info in infos]
    assert not any(attempt.alone for each in others for attempt in each)
    assert {(info.state, info.attempt) for info in infos} == {(State.SUCCEEDED, 1)}
    runs = Counter(run.job for run in Execution.read_all(executions))
    assert PROOF < runs[poison.id] <= len(attempts), "it ran before with others"
    struck = sum(count > 1 for count in runs.values()) - 1
    assert struck >= SIZE - 1, "its batch, at least"
