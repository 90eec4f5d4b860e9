"""If these fail, a slot of a schedule can be lost or fired twice while nodes come and go."""

import functools

import pytest

from detent.testing.simulation import Plan, Report, simulate

SEEDS = range(3000, 3020)
#: Long runs, in which nodes are killed and restarted all the time, and schedules fire on.
RUNS = Plan(nodes=4, jobs=12, lasts=300.0, faults=("kill", "restart"), schedules=4)


@functools.cache
def played(seed: int) -> Report:
    return simulate(seed, RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_slot_has_one_job_while_nodes_are_killed(seed: int) -> None:
    report = played(seed)
    assert not report.broken, report.explain()
    assert report.fired > 100


@pytest.mark.slow
def test_these_runs_saw_a_thousand_leader_changes_and_kills() -> None:
    reports = [played(seed) for seed in SEEDS]
    leaders = sum(report.counts.get("LeaderElected", 0) for report in reports)
    kills = sum(report.faults.get("kill", 0) for report in reports)
    slots = sum(report.fired for report in reports)
    assert leaders + kills >= 1_000, (leaders, kills)
    assert slots > 5_000


@pytest.mark.parametrize("fault", ["store", "slow", "cut", "pause", "skew", "lie"])
def test_schedules_keep_all_rules_with_every_fault(fault: str) -> None:
    for seed in range(3100, 3103):
        report = simulate(seed, Plan(jobs=12, faults=(fault,), schedules=4))
        assert not report.broken, report.explain()


def test_in_peace_every_slot_is_fired_in_its_second() -> None:
    report = simulate(1, Plan(weather="fair", faults=(), schedules=4))
    assert not report.broken, report.explain()
    late = [
        float(line.rpartition("late=")[2]) for line in report.history if "ScheduleFired" in line
    ]
    assert len(late) > 20
    assert max(late) < 1.0
