"""If these fail, a promise of the README can be broken; the message says how to see it happen."""

import functools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from detent.testing.simulation import Broken, Plan, Report, check, simulate

SEEDS = range(100)
KEPT = Path(__file__).with_name("seeds.txt")

#: What a hundred runs must have seen, or the simulation has become too kind.
TROUBLE = (
    "ClaimWasLost",
    "ClaimsReconciled",
    "JobDied",
    "JobRetrying",
    "JobSnoozed",
    "JobTimedOut",
    "JobWasCanceled",
    "NodeFenced",
    "StoreRecovered",
    "StoreTrouble",
    "TaskUnknown",
)


def kept() -> list[tuple[int, int, str | None]]:
    """Return the seeds that once failed, with how many nodes and in what weather."""
    lines = [line.partition("#")[0].split() for line in KEPT.read_text().splitlines()]
    return [
        (int(seed), int(nodes), None if weather == "any" else weather)
        for seed, nodes, weather in (line for line in lines if line)
    ]


@functools.cache
def played(seed: int, nodes: int = 2, weather: str | None = None) -> Report:
    return simulate(seed, Plan(nodes=nodes, weather=weather))


@pytest.mark.parametrize("seed", SEEDS)
def test_two_nodes_keep_all_rules(seed: int) -> None:
    report = played(seed)
    assert not report.broken, report.explain()


@pytest.mark.parametrize("seed, nodes, weather", kept())
def test_a_seed_that_failed_once_does_not_fail_again(
    seed: int, nodes: int, weather: str | None
) -> None:
    report = played(seed, nodes, weather)
    assert not report.broken, report.explain()


@pytest.mark.parametrize("seed", range(20))
def test_a_storm_breaks_no_rule(seed: int) -> None:
    report = played(seed, 3, "storm")
    assert not report.broken, report.explain()


@pytest.mark.parametrize("nodes", [1, 3, 5])
def test_any_number_of_nodes_keep_all_rules(nodes: int) -> None:
    for seed in range(1000, 1003):
        report = played(seed, nodes)
        assert not report.broken, report.explain()


def test_a_hundred_runs_see_every_kind_of_trouble() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen.update(played(seed).counts)
    assert [kind for kind in TROUBLE if not seen[kind]] == []
    assert seen["JobStarted"] > 5_000


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    again = simulate(seed, Plan())
    assert again.history == played(seed).history
    assert again.digest == played(seed).digest


def test_different_seeds_are_different_histories() -> None:
    assert len({played(seed).digest for seed in SEEDS}) == len(SEEDS)


def test_a_history_is_the_same_in_another_process_with_other_hashes() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-m", "detent.testing.simulation", "3", "--jobs", "30"],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("0", "4711")
    ]
    assert printed[0] == printed[1]
    assert "seed 3 kept all rules" in printed[0]


def test_a_broken_rule_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detent.testing.simulation.cluster.SLOTS", {"default": 1, "mail": 0})
    with pytest.raises(Broken) as caught:
        check(1, Plan(nodes=3, jobs=20))
    words = str(caught.value)
    assert "never more than its slots" in words
    assert "python -m detent.testing.simulation 1 --nodes 3 --jobs 20" in words
