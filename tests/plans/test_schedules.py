"""If these fail, firing gets slower with each schedule that is not due, each slot that was."""

from collections.abc import Callable

import pytest

from tests.plans.plan import Plan, condition, used_index
from tests.plans.situations import EMPTY, FEW, FRESH, MANY

Explain = Callable[[str], Plan]

pytestmark = pytest.mark.parametrize("situation", [FRESH, EMPTY, FEW, MANY])


def test_what_is_due_is_read_from_the_beginning_of_an_index(explain: Explain) -> None:
    plan = explain("due_schedules")
    (scan,) = plan.scans("detent_schedule")
    assert used_index(scan) == "detent_schedule_due"
    assert condition(scan) == "(due_at <= clock.now)"
    assert not [node for node in plan.nodes() if "Sort" in node["Node Type"]], "it is in order"


def test_the_next_slot_is_one_look_at_an_index(explain: Explain) -> None:
    plan = explain("next_schedule")
    (scan,) = plan.scans("detent_schedule")
    assert used_index(scan) == "detent_schedule_due"
    assert not [node for node in plan.nodes() if "Sort" in node["Node Type"]], "it is in order"


@pytest.mark.parametrize("name", ["lock_schedules", "advance_schedules", "hold_schedule"])
def test_schedules_are_fired_by_name(explain: Explain, name: str) -> None:
    scans = explain(name).scans("detent_schedule")
    assert [used_index(scan) for scan in scans] == ["detent_schedule_pkey"]


@pytest.mark.parametrize("name", ["overlapping_jobs", "close_slots", "live_slots"])
def test_overlap_is_decided_from_live_slots_and_not_from_the_history(
    explain: Explain, name: str
) -> None:
    plan = explain(name)
    scans = [scan for scan in plan.scans("detent_slot") if scan["Node Type"] != "Tid Scan"]
    assert [used_index(scan) for scan in scans] == ["detent_slot_live"]
    for table in ("detent_running", "detent_ready", "detent_parked"):
        assert {used_index(scan) for scan in plan.scans(table)} == {f"{table}_pkey"}


def test_writing_slots_reads_none(explain: Explain) -> None:
    assert explain("write_slots").tables_read == set()


def test_new_jobs_that_wait_are_written_without_a_look(explain: Explain) -> None:
    assert explain("enqueue_waiting_jobs").tables_read == set()
