"""If these fail, a promise of the README can be broken; the message says how to see it happen."""

import functools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from detent.testing.simulation import FAULTS, Broken, Plan, Report, check, simulate
from detent.testing.simulation.__main__ import plan_of
from detent.testing.simulation.campaign import Tally, play

SEEDS = range(140)
KEPT = Path(__file__).with_name("seeds.txt")

#: What these runs must have seen, or the simulation has become too kind.
EVENTS = (
    "ClaimWasLost",
    "ClaimsReconciled",
    "ClockSkew",
    "DaemonStarted",
    "HistoryLost",
    "JobDied",
    "JobRescued",
    "JobRetrying",
    "JobSnoozed",
    "JobTimedOut",
    "JobWasCanceled",
    "LeaderElected",
    "LeaderLost",
    "NodeDied",
    "NodeFenced",
    "StoreRecovered",
    "StoreTrouble",
    "TaskUnknown",
)
TROUBLE = (
    "blocked loop",
    "cut",
    "kill",
    "lost messages",
    "lost wake-ups",
    "pause",
    "poisoned",
    "repeated wake-ups",
    "replaced",
    "restart",
    "skewed clocks",
    "slow",
    "stalled messages",
    "store",
    "tail",
)


def kept() -> list[tuple[int, str]]:
    """Return the seeds that once failed, with their plans."""
    lines = [line.partition("#")[0].split() for line in KEPT.read_text().splitlines()]
    return [(int(seed), " ".join(plan)) for seed, *plan in (line for line in lines if line)]


@functools.cache
def played(seed: int, plan: Plan | None = None) -> Report:
    return simulate(seed, plan)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_rules_are_kept(seed: int) -> None:
    report = played(seed)
    assert not report.broken, report.explain()


@pytest.mark.parametrize("seed, plan", kept())
def test_a_seed_that_failed_once_does_not_fail_again(seed: int, plan: str) -> None:
    report = simulate(seed, plan_of(plan.split()))
    assert not report.broken, report.explain()


@pytest.mark.parametrize("seed", range(10))
def test_a_storm_breaks_no_rule(seed: int) -> None:
    check(seed, Plan(weather="storm"))


@pytest.mark.parametrize("seed", range(5))
def test_a_lost_tail_among_other_trouble_breaks_no_rule(seed: int) -> None:
    check(seed, Plan(faults=("tail", "kill", "pause", "daemon", "lie"), weather="windy"))


@pytest.mark.parametrize("nodes", [1, 2])
def test_few_nodes_keep_all_rules(nodes: int) -> None:
    for seed in range(1000, 1003):
        check(seed, Plan(nodes=nodes))


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_alone_breaks_no_rule(fault: str) -> None:
    for seed in range(2000, 2003):
        check(seed, Plan(weather="fair", faults=(fault,)))


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_has_one_order_while_there_are_more_jobs_than_slots(seed: int) -> None:
    check(seed, Plan(nodes=1, jobs=120, weather="fair", faults=(), lanes=True))


def test_in_peace_nothing_is_rescued_refused_or_given_up() -> None:
    for seed in range(5):
        report = check(seed, Plan(weather="fair", faults=()))
        assert (report.rescued, report.refused, report.faults) == (0, 0, {})
        assert not report.counts.keys() & {"NodeFenced", "NodeDied", "ClaimWasLost"}


def test_the_runs_see_every_kind_of_trouble() -> None:
    events: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    refused = rescued = 0
    for seed in SEEDS:
        report = played(seed)
        events.update(report.counts)
        faults.update(report.faults)
        refused += report.refused
        rescued += report.rescued
    assert [kind for kind in EVENTS if not events[kind]] == []
    assert [kind for kind in TROUBLE if not faults[kind]] == []
    assert events["JobStarted"] > 5_000
    assert refused > 10
    assert rescued > 100


def test_whoever_is_well_finds_the_dead_within_two_seconds() -> None:
    delays = [delay for seed in SEEDS for delay in played(seed).delays]
    assert len(delays) > 20
    assert max(delays) < 2.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    again = simulate(seed)
    assert again.history == played(seed).history
    assert again.digest == played(seed).digest


def test_different_seeds_are_different_histories() -> None:
    assert len({played(seed).digest for seed in SEEDS}) == len(SEEDS)


def test_a_history_is_the_same_in_another_process_with_other_hashes() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-m", "detent.testing.simulation", "3"],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("0", "4711")
    ]
    assert printed[0] == printed[1]
    assert f"seed 3 kept all rules (history {played(3).digest[:16]})" in printed[0]


def test_a_broken_rule_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detent.testing.simulation.runs.RunRules._valid", lambda self, run: False)
    plan = Plan(nodes=3, jobs=20, weather="fair", faults=("kill", "pause"))
    with pytest.raises(Broken) as caught:
        check(1, plan)
    words = str(caught.value)
    assert "BROKEN: a run begins with a valid claim: j1 fence" in words
    command = words.rpartition("python -m detent.testing.simulation ")[2].split()
    assert command[0] == "1"
    assert plan_of(command[1:]) == plan


# Many at once


def test_many_seeds_are_told_in_a_few_lines() -> None:
    tally = Tally()
    for seeds in ([3, 4], [0, 1, 2]):
        tally.add(play(seeds, Plan()))
    assert (tally.seeds, tally.replayed, tally.broken) == (5, 2, {})
    assert list(tally.digests.values()) == [played(seed).digest for seed in tally.digests]
    again = play([4, 3, 2, 1, 0], Plan())
    assert again.digest() == tally.digest()
    text = "\n".join(tally.lines(took=1.0, processes=2))
    assert "5 seeds in 1 s on 2 processes: 5.0 seeds/s" in text
    assert "violations  0 seeds" in text


def test_several_processes_come_to_the_same() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detent.testing.simulation", "0-2", "4", "--processes", "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    tally = play([0, 1, 2, 4], Plan())
    assert f"histories   {tally.digest()[:16]}; 1 played twice, and the same" in done.stdout
    assert "4 of 4 seeds" in done.stderr


def test_a_fault_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "detent.testing.simulation", "0", "--faults", "kill,flood"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "'flood' is no fault; there are: cut, kill, pause" in done.stderr
