"""If these fail, ids repeat, lie about their time, or lose the order in which they were made."""

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import ids
from detent.ids import COUNTER_LIMIT, IdMaker, timestamp_of

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = (1 << 48) - 1

CLOCKS = st.integers(0, LATEST)
MOMENTS = st.integers(0, 1 << 57).map(lambda us: EPOCH + timedelta(microseconds=us))


class Clock:
    """A clock that a test moves."""

    def __init__(self, milliseconds: int = 1_700_000_000_000) -> None:
        self.milliseconds = milliseconds
        self.waits = 0

    def __call__(self) -> int:
        return self.milliseconds

    def tick(self) -> None:
        self.waits += 1
        self.milliseconds += 1


def maker(clock: Clock) -> IdMaker:
    return IdMaker(milliseconds=clock, wait_for_tick=clock.tick)


def milliseconds_of(job_id: UUID) -> int:
    return job_id.int >> 80


def counter_of(job_id: UUID) -> int:
    return job_id.int >> 64 & 0xFFF


# The format


@given(CLOCKS, st.binary(min_size=8, max_size=8))
def test_an_id_is_a_uuid_of_version_7(milliseconds: int, random: bytes) -> None:
    clock = Clock(milliseconds)
    job_id = IdMaker(milliseconds=clock, random_bytes=lambda size: random * (size // 8)).new()
    assert job_id.version == 7
    assert job_id.variant == RFC_4122
    assert milliseconds_of(job_id) == milliseconds
    assert counter_of(job_id) == 0
    assert job_id.int & ((1 << 62) - 1) == int.from_bytes(random, "big") & ((1 << 62) - 1)


def test_the_example_of_the_rfc() -> None:
    # RFC 9562, A.6: 2022-02-22 14:22:22 -05:00 with rand_a = 0xCC3 and rand_b = 0x18C4DC0C0C07398F.
    clock = Clock(0x017F22E279B0)
    random = (0x18C4DC0C0C07398F).to_bytes(8, "big")
    made = IdMaker(milliseconds=clock, random_bytes=lambda size: random * (size // 8))
    for _ in range(0xCC3):
        made.new()
    assert made.new() == UUID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")


def test_random_bits_are_used_once() -> None:
    numbers = count()

    def random_bytes(size: int) -> bytes:
        return b"".join(next(numbers).to_bytes(8, "big") for _ in range(size // 8))

    made = IdMaker(random_bytes=random_bytes)
    used = [made.new().int & ((1 << 62) - 1) for _ in range(2000)]
    assert used == list(range(2000))


# The order


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200))
def test_ids_sort_in_the_order_in_which_they_were_made(steps: list[int]) -> None:
    clock = Clock()
    made = maker(clock)
    job_ids = []
    for step in steps:
        clock.milliseconds += step
        job_ids.append(made.new())
    assert all(one < two for one, two in pairwise(job_ids))


def test_the_counter_starts_anew_each_millisecond() -> None:
    clock = Clock()
    made = maker(clock)
    assert [counter_of(made.new()) for _ in range(3)] == [0, 1, 2]
    clock.tick()
    assert [counter_of(made.new()) for _ in range(3)] == [0, 1, 2]


def test_a_full_millisecond_waits_for_the_next() -> None:
    clock = Clock()
    made = maker(clock)
    job_ids = [made.new() for _ in range(COUNTER_LIMIT)]
    assert clock.waits == 0
    assert {milliseconds_of(job_id) for job_id in job_ids} == {clock.milliseconds}
    job_ids.append(made.new())
    assert clock.waits == 1
    assert milliseconds_of(job_ids[-1]) == clock.milliseconds
    assert counter_of(job_ids[-1]) == 0
    assert all(one < two for one, two in pairwise(job_ids))


def test_a_slow_tick_is_waited_for_as_long_as_it_takes() -> None:
    clock = Clock()
    ticks: Iterator[int] = iter([0, 0, 0, 1])

    def wait() -> None:
        clock.waits += 1
        clock.milliseconds += next(ticks)

    made = IdMaker(milliseconds=clock, wait_for_tick=wait)
    job_ids = [made.new() for _ in range(COUNTER_LIMIT + 1)]
    assert clock.waits == 4
    assert len(set(job_ids)) == len(job_ids)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=100))
def test_an_id_is_never_ahead_of_the_clock_and_never_repeats(steps: list[int]) -> None:
    clock = Clock()
    made = maker(clock)
    job_ids = []
    for step in steps:
        clock.milliseconds += step
        job_ids.append(made.new())
        assert milliseconds_of(job_ids[-1]) == clock.milliseconds
    assert len(set(job_ids)) == len(job_ids)


def test_after_a_step_back_ids_follow_the_clock_again() -> None:
    clock = Clock()
    made = maker(clock)
    before = made.new()
    clock.milliseconds -= 3_600_000
    after = [made.new() for _ in range(10)]
    assert after[0] < before
    assert {milliseconds_of(job_id) for job_id in after} == {clock.milliseconds}
    assert all(one < two for one, two in pairwise(after))


def test_a_step_back_ends_the_wait_for_a_tick() -> None:
    clock = Clock()

    def step_back() -> None:
        clock.milliseconds -= 1000

    made = IdMaker(milliseconds=clock, wait_for_tick=step_back)
    job_ids = [made.new() for _ in range(COUNTER_LIMIT + 1)]
    assert milliseconds_of(job_ids[-1]) == clock.milliseconds


# Threads and processes


def test_threads_share_a_maker() -> None:
    made = IdMaker()
    start = threading.Barrier(8)
    batches: list[list[UUID]] = []

    def work() -> None:
        start.wait()
        batches.append([made.new() for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({job_id for batch in batches for job_id in batch}) == 8 * 2000


# From Python 3.12 a fork beside other tests' threads warns; this child only makes ids.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("locked", [False, True], ids=["idle", "in use by a thread"])
def test_a_forked_child_does_not_repeat_its_parent(locked: bool) -> None:
    clock = Clock()  # stands still: only the random bits can differ
    made = maker(clock)
    made.new()
    if locked:  # as if another thread were making an id at the moment of the fork
        made._lock.acquire()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  another process
        try:
            os.write(write, b"".join(made.new().bytes for _ in range(100)))
        finally:
            os._exit(0)
    if locked:
        made._lock.release()
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        sent = pipe.read()
    os.waitpid(child, 0)
    childs = {UUID(bytes=sent[start : start + 16]) for start in range(0, len(sent), 16)}
    parents = {made.new() for _ in range(100)}
    assert len(childs) == len(parents) == 100
    assert not childs & parents


# Reading ids


@given(CLOCKS.filter(lambda milliseconds: milliseconds < 200_000_000_000_000))
def test_an_id_tells_when_it_was_made(milliseconds: int) -> None:
    job_id = maker(Clock(milliseconds)).new()
    assert timestamp_of(job_id) == EPOCH + milliseconds * MILLISECOND


@given(st.uuids(version=4))
def test_other_uuids_tell_nothing(stranger: UUID) -> None:
    with pytest.raises(ValueError, match=str(stranger)):
        timestamp_of(stranger)


def test_the_clock_of_the_machine_is_used() -> None:
    before = datetime.now(UTC)
    made = timestamp_of(IdMaker().new())
    assert before - MILLISECOND < made <= datetime.now(UTC)


@given(MOMENTS, MOMENTS, MOMENTS)
def test_a_range_has_exactly_the_ids_of_its_time(
    one: datetime, two: datetime, moment: datetime
) -> None:
    start, end = sorted((one, two))
    low, high = ids.range(start, end)
    clock = Clock((moment - EPOCH) // MILLISECOND)
    job_id = maker(clock).new()
    inside = low <= job_id <= high
    assert inside is (floor(start) <= floor(moment) <= floor(end))


@given(MOMENTS, st.sampled_from([b"\x00", b"\xff"]), st.integers(0, COUNTER_LIMIT - 1))
def test_a_range_includes_the_first_and_the_last_id_of_its_ends(
    moment: datetime, random: bytes, skipped: int
) -> None:
    milliseconds = (moment - EPOCH) // MILLISECOND
    made = IdMaker(milliseconds=Clock(milliseconds), random_bytes=lambda size: random * size)
    made._last, made._counter = milliseconds, skipped - 1
    low, high = ids.range(moment, moment)
    assert low <= made.new() <= high
    assert low.version == high.version == 7
    assert timestamp_of(low) == timestamp_of(high) == floor(moment)


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    now = datetime.now(UTC)
    with pytest.raises(ValueError, match="before its start"):
        ids.range(now, now - MILLISECOND)


def test_a_range_needs_a_time_zone() -> None:
    naive = datetime(2024, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match="time zone"):
        ids.range(naive, naive)


def floor(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
