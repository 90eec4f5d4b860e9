"""If these fail, a statement that is quick on a small database will read whole tables of a big one.

Every statement of the store is planned in every situation, and each must reach its rows through
the leading column of an index.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.plans.plan import STATEMENTS, Plan, condition, used_index
from tests.plans.situations import EMPTY, FEW, FRESH, MANY

Explain = Callable[[str], Plan]

#: Tables that hold a handful of rows, whatever happens: reading them whole is the best plan.
SMALL = {
    "detent_queue",
    "detent_node",
    "detent_leader",
    "detent_daemon",
    "detent_fence",
    "detent_lock_fence",
}

#: What may be read from end to end by which statement, and why that is right.
WHOLE = {
    ("delete_calendar", "detent_schedule"),  # for people, and seldom
    ("get_calendars", "detent_calendar"),  # all of the few there are, if nobody is named
    ("claims_of", "detent_running"),  # once a minute; an index would cost every claim
    ("leave_node", "detent_running"),  # once in the life of a node
    ("lost_claims", "detent_running"),  # when a node died: see claims_of
    ("unexamined_nodes", "detent_running"),
    ("after_rescue", "detent_running"),
    ("after_rescue", "pg_database"),
    ("find_adrift", "detent_running"),  # twice a minute, by the leader alone
    ("remove_orphans", "detent_key"),  # only where rows of jobs were lost
    ("signals_for", "detent_signal"),  # the few messages that wait; driven from here on purpose
    ("get_jobs", "detent_signal"),  # before PostgreSQL 14 one of two ways, and not the one taken
    ("join_node", "detent_parked"),  # a partial index that has nothing but what it wants
    ("adopt_jobs", "detent_parked"),
    ("list_locks", "detent_lock"),  # for people
    ("list_breakers", "detent_breaker"),  # the same
    ("forget_locks", "detent_lock"),  # once an hour, by one node
    ("forget_rates", "detent_bucket"),  # now and then, by one node
    ("forget_holds", "detent_hold"),
    ("forget_rates", "detent_pass"),
    ("list_limits", "detent_limit"),  # for people
    ("list_limits", "detent_running"),
    ("queues", "detent_ready"),  # counts, for people
    ("queues", "detent_running"),
    ("queues", "detent_parked"),
}

#: The first column of each index.
LEADS = {
    "detent_schedule_due": "due_at",
    "detent_schedule_group_name": "schedule_group",
    "detent_schedule_group_pkey": "name",
    "detent_schedule_pkey": "name",
    "detent_calendar_pkey": "name",
    "detent_slot_pkey": "schedule",
    "detent_slot_live": "schedule",
    "detent_slot_fired_at": "fired_at",
    "detent_ready_claim": "lane",
    "detent_archive_archived_at": "archived_at",
    "detent_key_expires_at": "expires_at",
    "detent_event_due": "sink",
    "detent_event_job": "job",
    "detent_alert_task_fingerprint_window_start_key": "task",
    "detent_alert_recent": "task",
    "detent_key_pkey": "kind",
    "detent_lock_pkey": "name",
    "detent_breaker_pkey": "name",
    "detent_limit_pkey": "name",
    "detent_bucket_pkey": "gate",
    "detent_hold_pkey": "gate",
    "detent_ready_family": "(split_part(lane, '#'::text, 1) ||",
    "detent_ready_gated": "lane",
    "detent_ready_needy": "lane",
    "detent_outcome_state": "state",
    "detent_parked_waits_for": "waits_for",
}

pytestmark = pytest.mark.parametrize("situation", [FRESH, EMPTY, FEW, MANY])


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reads_a_whole_table(explain: Explain, name: str) -> None:
    plan = explain(name)
    found = [
        f"{table}: {index} {asked or 'from end to end'}"
        for table, index, asked in whole_scans(plan)
        if table not in SMALL and (name, table) not in WHOLE
    ]
    assert not found, f"{name} reads {found}\n{plan}"


def whole_scans(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Table, index and condition of the scans that do not begin at a place in an index."""
    for table in sorted(plan.tables_read):
        for scan in plan.scans(table):
            index, asked = used_index(scan), condition(scan)
            lead = LEADS.get(index, "id")
            if index == "Tid Scan" or f"({lead} " in asked:
                continue
            yield table, index, asked


@pytest.mark.parametrize("name", STATEMENTS)
def test_rows_are_locked_in_the_order_of_their_ids(explain: Explain, name: str) -> None:
    """A bitmap gives them in the order of their place on disk: two such statements can deadlock."""
    plan = explain(name)
    assert not [node for node in plan.nodes() if node["Node Type"] == "Bitmap Heap Scan"], plan


def test_a_claim_begins_at_its_floor(explain: Explain) -> None:
    plan = explain("claim_jobs")
    heads = [scan for scan in plan.scans("detent_ready") if scan["Node Type"] != "Tid Scan"]
    assert [used_index(scan) for scan in heads] == ["detent_ready_claim"]
    asked = condition(heads[0])
    assert "(lane = ($2)[" in asked
    assert "(priority = " in asked
    assert "(ROW(due_at, id) >= ROW(LEAST(" in asked
    assert "(due_at <= me.now)" in asked
    # Anything else would be found out row by row, while they are locked.
    assert "Filter" not in heads[0]
    assert plan.whole_reads == []


def test_a_claim_takes_its_rows_by_their_place(explain: Explain) -> None:
    plan = explain("claim_jobs")
    assert [scan["Node Type"] for scan in plan.scans("detent_ready")].count("Tid Scan") == 1
    assert [used_index(scan) for scan in plan.scans("detent_job")] == ["detent_job_pkey"]


@pytest.mark.parametrize("name", ["finish_jobs", "settle_jobs", "release_claims", "save_progress"])
def test_a_claim_is_found_by_its_id(explain: Explain, name: str) -> None:
    plan = explain(name)
    indexes = {used_index(scan) for scan in plan.scans("detent_running")} - {"Tid Scan"}
    assert indexes == {"detent_running_pkey"}


@pytest.mark.parametrize("name", ["look", "next_due"])
def test_a_look_reads_the_index_alone(explain: Explain, name: str) -> None:
    plan = explain(name)
    (head,) = plan.scans("detent_ready")
    assert (head["Node Type"], used_index(head)) == ("Index Only Scan", "detent_ready_claim")
    assert "(lane = scan.lane)" in condition(head)
    assert "(priority = " in condition(head)
    assert "due_at" in condition(head)
    assert "Filter" not in head


@pytest.mark.parametrize("name", ["enqueue_job", "enqueue_jobs", "enqueue_keyed_job"])
def test_an_enqueue_reads_nothing(explain: Explain, name: str) -> None:
    assert explain(name).tables_read == set()
