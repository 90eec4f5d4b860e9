"""If these fail, jobs wait for a worker of a busy node although another is idle, or are lost."""

import functools

import pytest

from detent.testing.simulation import FAULTS, Plan, Report, check, simulate
from detent.testing.simulation.__main__ import plan_of

SEEDS = range(6000, 6024)
FEW = Plan(workers=True)


@functools.cache
def played(seed: int) -> Report:
    return simulate(seed, FEW)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_rules_are_kept_while_workers_are_few(seed: int) -> None:
    report = played(seed)
    assert not report.broken, report.explain()


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_alone_breaks_no_rule_about_workers(fault: str) -> None:
    check(6100, Plan(faults=(fault,), workers=True))


def test_the_runs_see_claims_go_back_that_could_not_begin() -> None:
    lines = [line for seed in SEEDS for line in played(seed).history]
    # To their old place, which is in the past; those that are tried again are due later.
    moments = [
        (line.split()[0], line.partition("-> pending(due ")[2].split(",")[0])
        for line in lines
        if "settle_jobs" in line and "-> pending(due" in line
    ]
    assert sum(float(due) < float(at) for at, due in moments) > 50


def test_the_same_seed_is_the_same_history() -> None:
    assert simulate(6000, FEW).history == played(6000).history


def test_a_run_can_be_played_again_from_what_it_says() -> None:
    plan = Plan(faults=("kill",), workers=True)
    assert plan_of(plan.arguments().split()) == plan
