"""If these fail, jobs of one schedule run beside each other, wait for ever, or are lost."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from detent.model.overlap import LiveJob, Resolution, resolve
from detent.model.schedule import Overlap, PlannedSlot, SlotState
from detent.testing.conformance.builders import new_job

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
OLD, OLDER = UUID(int=1), UUID(int=2)


def slots(count: int, skipped: int = 0) -> list[PlannedSlot]:
    given_up = [
        PlannedSlot(NOON - timedelta(hours=n + 1), SlotState.SKIPPED_MISFIRE, None)
        for n in range(skipped)
    ]
    fired = [
        PlannedSlot(NOON + timedelta(minutes=n), SlotState.FIRED, new_job()) for n in range(count)
    ]
    return [*given_up, *fired]


def ids(planned: list[PlannedSlot]) -> list[UUID]:
    return [each.job.id for each in planned if each.job is not None]


def test_without_live_jobs_every_rule_lets_one_fire() -> None:
    for overlap in Overlap:
        assert resolve(overlap, slots(1, skipped=2), []) == Resolution()


def test_allowed_jobs_wait_for_nobody() -> None:
    assert resolve(Overlap.ALLOW, slots(3), [LiveJob(OLD, runs=True)]) == Resolution()


def test_skipped_are_all_behind_a_live_job() -> None:
    planned = slots(3)
    behind = [each.slot for each in planned]
    assert resolve(Overlap.SKIP, planned, [LiveJob(OLD, runs=False)]).skipped == behind
    assert resolve(Overlap.SKIP, planned, []).skipped == behind[1:]


def test_queued_jobs_wait_for_the_one_fired_last() -> None:
    planned = slots(2)
    first, second = ids(planned)
    live = [LiveJob(OLD, runs=False, waits_for=OLDER), LiveJob(OLDER, runs=True)]
    assert resolve(Overlap.QUEUE, planned, live).waits == {first: OLD, second: first}
    assert resolve(Overlap.QUEUE, planned, []).waits == {second: first}


def test_the_last_replaces_all_others() -> None:
    planned = slots(2)
    _, last = ids(planned)
    live = [LiveJob(OLD, runs=False, waits_for=OLDER), LiveJob(OLDER, runs=True)]
    found = resolve(Overlap.REPLACE, planned, live)
    assert found.skipped == [planned[0].slot]
    assert (found.displaced, found.asked) == ({OLD: last}, {OLDER: last})
    assert found.waits == {last: OLDER}


@given(
    st.sampled_from(Overlap),
    st.integers(0, 5),
    st.lists(st.booleans(), max_size=4),
)
def test_of_what_must_not_overlap_one_is_free_to_run(
    overlap: Overlap, count: int, running: list[bool]
) -> None:
    """Whatever lives already: at most one job is left that nothing stands in the way of."""
    live = [LiveJob(UUID(int=n + 1), runs) for n, runs in enumerate(running)]
    planned = slots(count)
    found = resolve(overlap, planned, live)
    kept = [each for each in planned if each.slot not in found.skipped]
    free = [job for job in ids(kept) if job not in found.waits]
    if overlap is Overlap.ALLOW:
        assert len(free) == count
        return
    undisturbed = [each for each in live if each.id not in found.displaced]
    assert len(free) <= (0 if undisturbed else 1)
    assert not set(found.waits) - set(ids(kept)), "who is skipped waits for nobody"
    assert not set(found.waits.values()) & set(found.displaced), "nobody waits for a canceled one"
