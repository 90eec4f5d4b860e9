"""If these fail, a process that everybody believed dead writes to a job that another one runs."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from detent import State
from detent.model.job import Claim, lane_of
from detent.testing.conformance.late import accepted_late_writes
from tests.cluster.database import connected, until
from tests.cluster.processes import NodeProcess, Start
from tests.cluster.workload import Execution, Workload, tell

LEASE: Final = 1.5
SHORT: Final = {"DETENT_CLUSTER_HEARTBEAT_INTERVAL": "0.5s", "DETENT_CLUSTER_LEASE": f"{LEASE}s"}
PAIRS: Final = 4
ROUNDS: Final = 13
VOID: Final = 3
ENDS: Final = ("return", "fail", "retry", "snooze", "transaction")
FENCED: Final = "could not prove that it is alive"


async def until_begun(path: Path, count: int) -> list[Execution]:
    async def begun() -> bool:
        return len(Execution.read_all(path)) >= count

    await until(begun, f"{count} executions", pause=0.02)
    return Execution.read_all(path)


class Pair:
    """Two nodes that alone serve a queue: what one loses, the other finds."""

    def __init__(self, number: int, workload: Workload, start: Start, url: str, place: Path):
        self.queue = f"pair-{number}"
        self.zombies = 0
        self.void = 0
        self.told: Counter[str] = Counter()
        self._number = number
        self._workload = workload
        self._place = place / self.queue
        self._place.mkdir()
        self._nodes = [start(url, "--queues", f"{self.queue}=2", **SHORT) for _ in range(2)]

    async def play(self, ends: Iterable[str]) -> None:
        """Make a zombie for each way to end, and see that nobody hears what it says."""
        for how in ends:
            # On a machine that is very busy, an owner may come to lose its lease as well.
            while not await self._round(how):
                self.void += 1
                assert self.void <= VOID, "nodes lose their leases for nothing"

    async def _round(self, how: str) -> bool:
        """Return whether the owner ran as long as it should."""
        executions = self._place / f"round-{self.zombies + self.void}"
        fenced = {node.pid: node.said().count(FENCED) for node in self._nodes}
        linger = self._workload.linger.options(queue=self.queue)
        job = await linger.enqueue(str(executions), str(self._place))
        lost = (await until_begun(executions, 1))[0]
        zombie = self._node(lost.pid)
        zombie.signal(signal.SIGSTOP)
        valid = (await until_begun(executions, 2))[1]
        assert valid.fence > lost.fence
        await self._write_in_the_name_of(lost)
        # It wakes up with all it waited for, while the new owner goes on.
        tell(self._place, lost, how)
        zombie.signal(signal.SIGCONT)

        async def awake() -> bool:
            return zombie.said().count(FENCED) > fenced[lost.pid]

        await until(awake, "a zombie that knows it")
        info = await self._workload.app.jobs.get(job.id)
        log = await self._workload.app.store.log_of(job.id, 10)
        if self._node(valid.pid).said().count(FENCED) > fenced[valid.pid] or valid.pid == lost.pid:
            await self._give_up(executions)
            return False
        assert (info.state, info.fence, info.node) == (State.RUNNING, valid.fence, valid.node)
        assert (info.progress, info.error, info.attempt, log) == (None, None, 1, [])
        tell(self._place, valid, "transaction" if how == "transaction" else "return")
        assert await job.result(timeout=30) == f"by {valid.fence}"
        assert (await self._workload.app.jobs.get(job.id)).attempt == 1
        assert len(Execution.read_all(executions)) == 2, "run by the dead and by the living"
        self.zombies += 1
        self.told[how] += 1
        return True

    async def _give_up(self, executions: Path) -> None:
        """Let a job end, whoever has it by now."""

        async def ended() -> bool:
            runs = Execution.read_all(executions)
            for run in runs:
                tell(self._place, run, "return")
            return (await self._workload.app.jobs.get(runs[0].job)).state is State.SUCCEEDED

        await until(ended, "the end of a job")

    def _node(self, pid: int) -> NodeProcess:
        (node,) = [node for node in self._nodes if node.pid == pid]
        return node

    async def _write_in_the_name_of(self, lost: Execution) -> None:
        """Whatever the zombie itself comes to write, this is everything that it could."""
        store = self._workload.app.store
        (info,) = await store.get_jobs([lost.job])
        claim = Claim(
            id=lost.job,
            fence=lost.fence,
            task="linger",
            lane=lane_of(self.queue, ()),
            priority=2,
            due_at=info.due_at,
            attempt=1,
            crashes=0,
            generation=1,
            hooks=0,
            args=b"{}",
            codec="json",
            options=None,
            params=None,
            tags=None,
        )
        assert await accepted_late_writes(store, lost.node, claim) == []


async def test_fifty_zombies_have_nothing_to_say(
    workload: Workload, start: Start, postgres_url: str, tmp_path: Path
) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute("CREATE TABLE effect (job uuid)")
        pairs = [Pair(number, workload, start, postgres_url, tmp_path) for number in range(PAIRS)]
        async with asyncio.TaskGroup() as group:
            for number, pair in enumerate(pairs):
                group.create_task(pair.play(islice(cycle(ENDS), number, number + ROUNDS)))
        effects = await connection.fetch("SELECT job FROM effect")
    told = sum((pair.told for pair in pairs), Counter[str]())
    void = sum(pair.void for pair in pairs)
    print(f"{sum(told.values())} zombies: {dict(told)}; {void} void")  # noqa: T201  for who looks
    assert sum(told.values()) == PAIRS * ROUNDS >= 50
    assert len(effects) == len({row["job"] for row in effects}) == told["transaction"]


async def test_a_node_frozen_within_a_transaction_does_not_keep_its_job(
    workload: Workload, start: Start, postgres_url: str, executions: Path, tmp_path: Path
) -> None:
    async with connected(postgres_url) as connection:
        await connection.execute("CREATE TABLE effect (job uuid)")
        frozen = start(postgres_url, **SHORT)
        job = await workload.linger.enqueue(str(executions), str(tmp_path), within=True)
        (lost,) = await until_begun(executions, 1)
        await until_locked(connection)
        start(postgres_url, **SHORT).wait_for("started")
        frozen.signal(signal.SIGSTOP)
        froze = time.time()
        valid = (await until_begun(executions, 2))[1]
        took = valid.at - froze
        print(f"begun again after {took:.2f} s, with a lease of {LEASE} s")  # noqa: T201
        # Its session is given two seconds to end by itself.
        assert took <= LEASE + 2.0 + 2.0
        tell(tmp_path, lost, "return")
        frozen.signal(signal.SIGCONT)
        await asyncio.to_thread(frozen.wait_for, FENCED)
        tell(tmp_path, valid, "return")
        assert await job.result(timeout=30) == f"by {valid.fence}"
        assert await connection.fetchval("SELECT count(*) FROM effect") == 1


async def until_locked(connection: Any) -> None:
    """Wait until the transaction of the job has its lock."""

    async def locked() -> bool:
        rows = await connection.fetch(
            "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"
            " AND datname = current_database()"
        )
        return bool(rows)

    await until(locked, "an open transaction")
