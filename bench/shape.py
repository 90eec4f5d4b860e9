"""Whether cost is flat: drains and lone jobs against queues, capabilities, nodes, waiters and keys.

Each dimension is measured at several sizes, everything else as small as it can be. `of smallest` is
what a size does by what the smallest of its dimension did in the same round: 1 means that the size
does not matter. Drains say how much work passes, lone jobs how soon one starts and how many
statements it costs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from bench.drain import Drains
from bench.harness import Harness, Measured
from bench.latency import measure_lone_jobs
from bench.results import Results, Spread, spread
from bench.server import Server
from bench.subjects import DETENT, Subject

SECTION = "shape"
SLOTS = 1_000


@dataclass(frozen=True)
class Shape:
    """One size of one dimension."""

    dimension: str
    size: int
    lone: bool = False
    """Whether single jobs are timed, and not a drain."""
    environment: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    queues: int = 1
    capabilities: int = 0
    held: bool = False
    """Whether a snapshot is held meanwhile, so that no dead row can be removed."""

    @property
    def case(self) -> str:
        what = "lone job" if self.lone else "drain"
        return f"{what}, {self.size:,} {self.dimension}"

    @property
    def subject(self) -> Subject:
        names = ["default", *(f"q{number}" for number in range(1, self.queues))]
        queues = ",".join(f"{name}={max(SLOTS // self.queues, 20)}" for name in names)
        offered = ",".join(f"c{number}" for number in range(self.capabilities))
        node = ["-m", "detent", "node", "bench.detent_app:app", "--queues", queues]
        node += ["--capabilities", offered] if offered else []
        return replace(DETENT, node=tuple(node))


def _queues(size: int, lone: bool) -> Shape:
    return Shape("queues", size, lone, {"BENCH_QUEUES": str(size)}, queues=size)


def _capabilities(size: int, lone: bool) -> Shape:
    # Jobs that need nothing, and others that need one of four.
    needs = {"BENCH_NEEDS": str(min(size, 4))}
    return Shape("capabilities", size, lone, needs, capabilities=size)


def _keys(size: int) -> Shape:
    return Shape("keys", size, environment={"BENCH_TASK": "keyed", "BENCH_KEYS": str(size)})


SHAPES = (
    *(_queues(size, lone) for lone in (False, True) for size in (1, 100, 1_000, 5_000)),
    *(_capabilities(size, lone) for lone in (False, True) for size in (0, 8, 32)),
    *(Shape("nodes", size, lone=True, nodes=size) for size in (1, 8, 24)),
    *(
        Shape("waiters", size, lone=True, environment={"BENCH_WAITERS": str(size)})
        for size in (10, 2_000, 20_000)
    ),
    *(_keys(size) for size in (1, 100_000)),
    *(Shape("held snapshots", size, held=size > 0) for size in (0, 1)),
)
BY_CASE = {shape.case: shape for shape in SHAPES}
BARRED = ("drain, 1,000 queues", "drain, 32 capabilities", "drain, 100,000 keys")


async def run(harness: Harness) -> None:
    drains = Drains(harness)

    async def measure(_subject: Subject, case: str) -> Measured:
        shape = BY_CASE[case]
        if shape.lone:
            return await measure_lone_jobs(
                harness, shape.subject, nodes_count=shape.nodes, extra=shape.environment
            )
        async with _snapshot(harness.server, shape):
            return await drains.measure(
                shape.subject, shape.nodes, extra=shape.environment, fill=shape.environment
            )

    await harness.rounds(SECTION, list(BY_CASE), [DETENT], measure)


@asynccontextmanager
async def _snapshot(server: Server, shape: Shape) -> AsyncIterator[None]:
    """Hold a snapshot of the whole server, if the shape asks for it."""
    if not shape.held:
        yield
        return
    async with (
        server.connect() as connection,
        connection.transaction(isolation="repeatable_read"),
    ):
        # With an id of its own it keeps the dead rows of every database.
        await connection.fetchval("SELECT txid_current()")
        yield


def of_smallest(results: Results, case: str) -> Spread | None:
    """What a size does by what the smallest of its dimension does, round by round."""
    shape = BY_CASE[case]
    first = next(
        each for each in SHAPES if (each.dimension, each.lone) == (shape.dimension, shape.lone)
    )
    metric = "p50" if shape.lone else "rate"
    small = results.of(SECTION, first.case, DETENT.name, metric)
    large = results.of(SECTION, case, DETENT.name, metric)
    return spread(large[each] / small[each] for each in large if small.get(each))


def statements_of_many_nodes(results: Results) -> Spread | None:
    """The statements of a lone job with 24 nodes by those with one, round by round."""
    one = results.of(SECTION, "lone job, 1 nodes", DETENT.name, "statements")
    many = results.of(SECTION, "lone job, 24 nodes", DETENT.name, "statements")
    return spread(many[each] / one[each] for each in many if one.get(each))
