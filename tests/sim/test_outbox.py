"""If these fail, somebody outside misses the end of a job while nodes die, or hears it wrongly."""

import functools

import pytest

from detent.testing.simulation import FAULTS, Plan, Report, check, simulate
from detent.testing.simulation.__main__ import plan_of

SEEDS = range(5000, 5012)
#: Nodes are killed and restarted all the time, also between a delivery and its note.
DYING = Plan(jobs=40, faults=("kill", "restart"), sinks=True)


@functools.cache
def played(seed: int) -> Report:
    return simulate(seed, DYING)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_end_is_told_although_nodes_are_killed(seed: int) -> None:
    report = played(seed)
    assert not report.broken, report.explain()
    assert report.delivered > 30


def test_these_runs_kill_between_a_delivery_and_its_note() -> None:
    reports = [played(seed) for seed in SEEDS]
    assert sum(report.faults.get("kill", 0) for report in reports) > 30
    assert sum(report.repeated for report in reports) > 0, "at least once, and at times twice"
    assert sum(report.counts.get("EventPutOff", 0) for report in reports) > 50


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_alone_breaks_no_rule_about_the_outbox(fault: str) -> None:
    for seed in range(5100, 5102):
        check(seed, Plan(faults=(fault,), sinks=True))


@pytest.mark.parametrize("seed", range(5200, 5206))
def test_whatever_the_seed_has_in_store_every_end_is_told(seed: int) -> None:
    check(seed, Plan(sinks=True))


def test_who_tells_nobody_lives_as_before() -> None:
    """Seeds that were kept before there was an outbox must show what they showed then."""
    plain = simulate(7, Plan(jobs=12))
    assert plain.delivered == 0
    assert not any("outside" in line for line in plain.history)


def test_a_run_with_sinks_can_be_seen_again() -> None:
    assert plan_of(DYING.arguments().split()) == DYING
