"""What must hold after the chaos: the invariants of the laboratory.

The database says what was accepted; the effects, in local files, say what was really run.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from tests.chaos.tasks import BEGIN, END, Effect

OUTCOMES: Final = "SELECT id, state, fence, node, attempt FROM detent.detent_outcome"
CRASHES: Final = """
    SELECT id, date_part('epoch', ended_at) AS at
    FROM detent.detent_attempt WHERE kind = 'crashed' ORDER BY ended_at
"""
# What a dead node had, or had not even begun, is charged to no attempt.
FAILURES: Final = """
    SELECT id, kind FROM detent.detent_attempt WHERE kind NOT IN ('crashed', 'unstarted')
"""
LIVE: Final = """
    SELECT id FROM detent.detent_ready UNION ALL SELECT id FROM detent.detent_running
    UNION ALL SELECT id FROM detent.detent_parked
"""
STAYED: Final = "SELECT name FROM detent.detent_node WHERE state <> 'dead'"
MAX_CRASHES: Final = 3

Runs = Mapping[UUID, Sequence[Effect]]


@dataclass(slots=True)
class Verdict:
    """The broken rules, the numbers, and what both were taken from."""

    outcomes: Mapping[UUID, Any]
    crashes: Mapping[UUID, Sequence[float]]
    """When its claims were taken from the dead."""
    runs: Runs
    broken: list[str] = field(default_factory=list)
    numbers: dict[str, object] = field(default_factory=dict)

    def refuse(self, rule: str, found: Sequence[object]) -> None:
        """Note a broken rule."""
        if found:
            shown = ", ".join(map(str, found[:5]))
            self.broken.append(f"{rule}: {len(found)} times: {shown}")

    def text(self) -> str:
        """Return the ledger."""
        lines = [f"{name:<34} {value:>22}" for name, value in self.numbers.items()]
        lines += [f"BROKEN {rule}" for rule in self.broken]
        return "\n".join([*lines, f"{'violations':<34} {len(self.broken):>22}"])


async def judge(
    connection: Any, acknowledged: Collection[UUID], effects: Sequence[Effect]
) -> Verdict:
    """Compare what was promised, what is stored and what was done."""
    runs: dict[UUID, list[Effect]] = defaultdict(list)
    for effect in effects:
        runs[effect.job].append(effect)
    crashes: dict[UUID, list[float]] = defaultdict(list)
    for row in await connection.fetch(CRASHES):
        crashes[row["id"]].append(row["at"])
    outcomes = {row["id"]: row for row in await connection.fetch(OUTCOMES)}
    verdict = Verdict(outcomes, crashes, runs)
    verdict.refuse("I1 a committed job is lost", [i for i in acknowledged if i not in outcomes])
    verdict.refuse("I1 a job has not ended", [row["id"] for row in await connection.fetch(LIVE)])
    verdict.refuse("I2 two runs under one claim", _twice(effects))
    verdict.refuse("I3 a completion of an old claim was accepted", _zombies(verdict))
    verdict.refuse("I5 a success without its effect", _without_effect(verdict))
    verdict.refuse("a job did not succeed", _unexpected(verdict))
    charged = [i for i, row in outcomes.items() if row["attempt"] > 1]
    charged += [row["id"] for row in await connection.fetch(FAILURES)]
    verdict.refuse("I6 an attempt was charged", charged)
    stayed = [row["name"] for row in await connection.fetch(STAYED)]
    verdict.refuse("a node is left that is not dead", stayed)
    return verdict


def find_stalls(effects: Sequence[Effect], since: float, patience: float) -> list[str]:
    """Return when, after everything was mended, nothing was begun or ended for too long."""
    moments = [since, *(effect.at for effect in effects if effect.at > since)]
    return [
        f"for {later - earlier:.1f} s, {earlier - since:.1f} s after the last fault"
        for earlier, later in pairwise(moments)
        if later - earlier > patience
    ]


def _twice(effects: Sequence[Effect]) -> list[object]:
    counts = Counter((e.job, e.fence) for e in effects if e.what == BEGIN)
    return [key for key, count in counts.items() if count > 1]


def _zombies(verdict: Verdict) -> list[object]:
    """A later claim had begun, and yet an earlier one was allowed to complete."""
    return [
        (job_id, row["fence"])
        for job_id, row in verdict.outcomes.items()
        if any(e.what == BEGIN and e.fence > row["fence"] for e in verdict.runs.get(job_id, ()))
    ]


def _without_effect(verdict: Verdict) -> list[object]:
    return [
        job_id
        for job_id, row in verdict.outcomes.items()
        if row["state"] == "succeeded"
        and not any(e.what == END and e.fence == row["fence"] for e in verdict.runs.get(job_id, ()))
    ]


def _unexpected(verdict: Verdict) -> list[object]:
    """A job may fail only because its node died, again and again, while it ran."""
    return [
        (job_id, row["state"])
        for job_id, row in verdict.outcomes.items()
        if row["state"] != "succeeded"
        and not (row["state"] == "failed" and len(verdict.crashes[job_id]) >= MAX_CRASHES)
    ]
