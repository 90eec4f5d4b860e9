"""The bars of the performance budget, each as a question to the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench import claim, enqueue, idle, latency, limits, memory, scale, shape, sqlite
from bench.results import Results, Spread

OURS = "detent"
MB = 1e6


@dataclass(frozen=True)
class Bar:
    section: str
    what: str
    limit: float
    measured: Callable[[Results], Spread | None]
    at_least: bool = True
    digits: int = 2

    def verdict(self, results: Results) -> str:
        value = self.measured(results)
        if value is None:
            return "-"
        good = value.middle >= self.limit if self.at_least else value.middle <= self.limit
        return "PASS" if good else "MISS"


def ratio(section: str, case: str, under: str) -> Callable[[Results], Spread | None]:
    return lambda results: results.ratio(section, case, OURS, under, "rate")


def value(
    section: str, case: str, metric: str, unit: float = 1.0
) -> Callable[[Results], Spread | None]:
    def measured(results: Results) -> Spread | None:
        found = results.spread(section, case, OURS, metric)
        return found and Spread(found.middle / unit, found.low / unit, found.high / unit)

    return measured


def growth(results: Results) -> Spread | None:
    late = results.spread("memory", memory.DRAINED, OURS, "late")
    early = results.spread("memory", memory.DRAINED, OURS, "early")
    if late is None or early is None:
        return None
    grown = late.middle / early.middle
    return Spread(grown, grown, grown)


ONE, TWO = "1 process", "2 processes"
BARS = (
    Bar("drain", "drain, one process: times pgqueuer", 2.0, ratio("drain", ONE, "pgqueuer")),
    Bar("drain", "drain, one process: share of prototype", 0.5, ratio("drain", ONE, "prototype")),
    Bar("drain", "drain, two processes: times pgqueuer", 1.5, ratio("drain", TWO, "pgqueuer")),
    Bar("drain", "statements per job", 0.02, value("drain", ONE, "statements"), False, 4),
    Bar("drain", "commits per job", 0.02, value("drain", ONE, "commits"), False, 4),
    Bar("drain", "Python µs per job", 20.0, value("drain", ONE, "node_us"), False, 1),
    Bar("enqueue", "one caller: share of a raw insert", 0.85, ratio("enqueue", "1 caller", "raw")),
    Bar("enqueue", "50 callers: jobs/s", 20_000, value("enqueue", "50 callers", "rate"), True, 0),
    Bar("enqueue", "bulk: jobs/s", 60_000, value("enqueue", enqueue.BULK, "rate"), True, 0),
    Bar("latency", "idle p50, ms", 1.6, value("latency", latency.CASE, "p50"), False),
    Bar("latency", "idle p99, ms", 4.0, value("latency", latency.CASE, "p99"), False),
    Bar("claim", "claim of 100, server p99, worst, ms", 5.0, claim.worst_p99, False),
    Bar("claim", "claim rate, worst share of fresh", 0.9, claim.worst_rate),
    Bar("claim", "claim p99, 1 MiB by 100 B", 1.2, claim.payload_ratio, False),
    Bar("idle", "idle node: statements/s", 1.0, value("idle", idle.CASE, "statements"), False),
    Bar("idle", "idle node: % of a core", 1.0, value("idle", idle.CASE, "cpu_percent"), False),
    Bar(
        "memory", "1,000 running jobs, MB", 100, value("memory", memory.RUNNING, "late", MB), False
    ),
    Bar("memory", "a million drained: RSS by that at 100,000", 1.1, growth, False),
    Bar(
        "sqlite",
        "SQLite drain, synchronous=FULL: jobs/s",
        10_000,
        value("sqlite", sqlite.ONE, "rate"),
        True,
        0,
    ),
    Bar(
        "sqlite",
        "SQLite, idle node: % of a core",
        1.0,
        value("sqlite", sqlite.IDLE, "cpu_percent"),
        False,
    ),
    Bar(
        "limits",
        "drain under a limit that does not bind: share of without",
        0.9,
        value("limits", limits.LIMITED, "of_unlimited"),
    ),
    Bar(
        "limits",
        "claim beside 100,000 blocked jobs, p99, ms",
        5.0,
        value("limits", limits.BLOCKED, "p99"),
        False,
    ),
    *(
        Bar(
            shape.SECTION,
            f"{case}: share of the smallest",
            0.9,
            lambda results, case=case: shape.of_smallest(results, case),
        )
        for case in shape.BARRED
    ),
    Bar(
        shape.SECTION,
        "lone job, 24 nodes: statements by those of 1 node",
        2.0,
        shape.statements_of_many_nodes,
        False,
    ),
    Bar("scale", "beside 100,000 foreign jobs", 0.9, value("scale", scale.FOREIGN, "of_alone")),
    Bar(
        "scale",
        "10 idle nodes: statements/s",
        10,
        value("scale", scale.IDLE, "statements_a_second"),
        False,
    ),
)
