"""The numbers of a run of the chaos, as they are printed."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tests.chaos.nemesis import Kill, Nemesis
from tests.chaos.nodes import ChaosNode
from tests.chaos.plan import Plan
from tests.chaos.producer import Producer
from tests.chaos.tasks import BEGIN, END, Effect
from tests.chaos.verdict import MAX_CRASHES, Verdict


def count(
    verdict: Verdict, plan: Plan, producer: Producer, nemesis: Nemesis, nodes: Sequence[ChaosNode]
) -> None:
    """Write the ledger into the verdict."""
    done = nemesis.done
    states = Counter(row["state"] for row in verdict.outcomes.values())
    begun = sum(e.what == BEGIN for each in verdict.runs.values() for e in each)
    quick, slow = rescue_times(verdict, nemesis.kills)
    verdict.numbers |= {
        "seed": plan.seed,
        "lease": f"{plan.lease:g} s",
        "jobs acknowledged": f"{len(producer.acknowledged):,}",
        "  succeeded": f"{states['succeeded']:,}",
        f"  failed, crashed {MAX_CRASHES} times": f"{states['failed']:,}",
        "enqueues without an answer": f"{producer.refusals:,}",
        "SIGKILL": done.kills,
        "SIGSTOP beyond the lease": done.freezes,
        "blackholes": done.blackholes,
        "connections cut": done.hang_ups,
        "30 % of backends terminated": done.terminations,
        "PostgreSQL killed and restarted": done.restarts,
        "node processes started": sum(node.starts for node in nodes),
        "nodes that fenced themselves": sum(node.fenced() for node in nodes),
        "runs": f"{begun:,}",
        "  begun again (duplicates)": f"{begun - len(verdict.runs):,}",
        "  ended after the next had begun": f"{len(late_ends(verdict)):,}",
        "crashes recorded": f"{sum(map(len, verdict.crashes.values())):,}",
        "late writes refused, as nodes told": f"{sum(node.refused() for node in nodes):,}",
        "zombie writes accepted": sum("old claim" in rule for rule in verdict.broken),
    }
    for alone, where in ((True, "from another host"), (False, "same host")):
        verdict.numbers[f"kill to next run, {where}"] = shown(quick[alone])
    verdict.numbers["kill to next run, suspects"] = shown(slow)


def late_ends(verdict: Verdict) -> list[Effect]:
    """Return the runs that went on to their end although the next one had begun: real zombies."""
    found = []
    for each in verdict.runs.values():
        fence = 0
        for effect in each:  # in order of time
            if effect.what == BEGIN:
                fence = max(fence, effect.fence)
            elif effect.what == END and effect.fence < fence:
                found.append(effect)
    return found


def rescue_times(
    verdict: Verdict, kills: Sequence[Kill]
) -> tuple[dict[bool, list[float]], list[float]]:
    """Return how long the jobs of killed processes waited for their next run.

    First by whether the process was on a machine of its own; then those of suspects, of which
    each node runs only one at a time.
    """
    killed = {kill.pid: kill for kill in kills}
    quick: dict[bool, list[float]] = {True: [], False: []}
    slow: list[float] = []
    for job_id, effects in verdict.runs.items():
        begins = [effect for effect in effects if effect.what == BEGIN]
        accepted = verdict.outcomes[job_id]["fence"] if job_id in verdict.outcomes else None
        for effect, after in pairwise(begins):
            kill = killed.get(effect.pid)
            if kill is None or not effect.at < kill.at < after.at or effect.fence == accepted:
                continue
            crashes = sum(at < after.at for at in verdict.crashes[job_id])
            times = slow if crashes >= MAX_CRASHES - 1 else quick[kill.alone]
            times.append(after.at - kill.at)
    return quick, slow


def percentile(times: Sequence[float], share: float) -> float:
    """Return the smallest time that so many of the others do not exceed."""
    return sorted(times)[max(math.ceil(len(times) * share) - 1, 0)]


def shown(times: Sequence[float]) -> str:
    """Return p50, p99 and the longest, in seconds."""
    if not times:
        return "-"
    return f"{percentile(times, 0.5):.2f} / {percentile(times, 0.99):.2f} / {max(times):.2f} s"
