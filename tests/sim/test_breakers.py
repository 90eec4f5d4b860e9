"""If these fail, a breaker in a troubled cluster charges jobs, loses them, or lets too many try."""

import functools
from collections import Counter

import pytest

from detent.testing.simulation import FAULTS, Plan, Report, check, simulate
from detent.testing.simulation.__main__ import plan_of

SEEDS = range(4000, 4036)
CALLS = Plan(breakers=True)


@functools.cache
def played(seed: int) -> Report:
    return simulate(seed, CALLS)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_rules_are_kept_while_a_service_is_down_at_times(seed: int) -> None:
    report = played(seed)
    assert not report.broken, report.explain()


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_alone_breaks_no_rule_about_breakers(fault: str) -> None:
    for seed in range(4100, 4102):
        check(seed, Plan(faults=(fault,), breakers=True))


def test_the_runs_see_breakers_open_try_and_close() -> None:
    told: Counter[str] = Counter()
    for seed in SEEDS:
        lines = played(seed).history
        told["opened"] += sum(" BreakerOpened " in line and "node=n" in line for line in lines)
        told["half-open"] += sum(" BreakerHalfOpen " in line for line in lines)
        told["closed"] += sum(" BreakerClosed " in line and "node=n" in line for line in lines)
        told["by hand"] += sum(" Breaker" in line and "node=None" in line for line in lines)
        told["held back"] += sum("breaker service is not closed" in line for line in lines)
    assert told["opened"] > 60
    assert told["half-open"] > 60
    assert told["closed"] > 20
    assert told["by hand"] > 20
    assert told["held back"] > 300


def test_the_same_seed_is_the_same_history() -> None:
    assert simulate(4000, CALLS).history == played(4000).history


def test_whoever_does_not_ask_for_it_has_no_breaker() -> None:
    report = simulate(0, Plan(breakers=False))
    assert not any("fragile" in line or "Breaker" in line for line in report.history)


def test_a_run_can_be_played_again_from_what_it_says() -> None:
    plan = Plan(faults=("kill",), breakers=True)
    assert plan_of(plan.arguments().split()) == plan
