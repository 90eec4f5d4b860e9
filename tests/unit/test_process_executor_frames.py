"""If these fail, a node and its children misunderstand each other, or trust too much."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.control_flow import Fail, RetryAfter, Snooze
from detent.errors import JobCanceled, RemoteError
from detent.executors.frames import (
    Cancel,
    Done,
    Garbled,
    Kind,
    Line,
    Load,
    Progress,
    Run,
    Unpacker,
    pack,
)
from detent.executors.remote import retold, tell
from detent.model.failure import describe, failure_of
from detent.model.outcome import Ending, Outcome, decide
from detent.model.retry import Retry
from detent.model.state import State

JOB = UUID(int=7)
LIMIT = 10_000
FRAMES: list[tuple[Kind, Any, bytes]] = [
    (Kind.STOP, None, b""),
    (Kind.LOAD, Load("shop.crunch", ["shop"]), b""),
    (Kind.RUN, Run("t", JOB, "q", 1, 2, 3, JOB, None, "json", {"a": [1]}, ["x"]), b'{"n":1}'),
    (Kind.CANCEL, Cancel("cancel", "enough"), b""),
    (Kind.DONE, Done(None, 5), b"\x00\xff binary"),
    (Kind.PROGRESS, Progress(0.5, None), b""),
    (Kind.LOG, Line("info", "naïve"), b""),
]


@given(st.lists(st.sampled_from(FRAMES), max_size=8), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[Kind, Any, bytes]], cuts: list[int]
) -> None:
    data = b"".join(pack(*frame) for frame in frames)
    unpacker, received, start = Unpacker(LIMIT), [], 0
    for index in range(len(data)):
        end = start + cuts[index % len(cuts)]
        received += [tuple(frame) for frame in unpacker.feed(data[start:end])]
        start = end
    assert received == frames


@given(st.binary(min_size=9, max_size=200))
def test_bytes_that_are_no_frame_are_refused_or_waited_for_and_never_too_long(data: bytes) -> None:
    unpacker = Unpacker(LIMIT)
    try:
        frames = list(unpacker.feed(data))
    except Garbled:
        return
    assert len(frames) * 9 + len(unpacker._buffer) <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        pack(Kind.DONE, Done(None, 1), bytes(LIMIT)),
        pack(Kind.PROGRESS, Progress(1.5, None)),
        pack(Kind.LOG, Line("shout", "hello")),  # type: ignore[arg-type]
        pack(Kind.DONE, Cancel("a", None)),
        pack(Kind.LOG),
        b"\0\0\0\4\x05\0\0\0\0",
        b"\0\0\0\x05\x63\0\0\0\0",
        b"\0\0\0\x06\x05\0\0\0\x01\xff",
    ],
)
def test_a_frame_with_something_wrong_in_it_is_refused(data: bytes) -> None:
    with pytest.raises(Garbled):
        list(Unpacker(LIMIT).feed(data))


# ---------------------------------------------------------------- exceptions

POLICY = Retry(max_attempts=3, delay=timedelta(seconds=1), jitter=False, never=(LookupError,))


def raised_from(error: BaseException, cause: BaseException | None = None) -> BaseException:
    error.__cause__ = cause
    return error


def outcome_of(error: BaseException) -> Outcome:
    """Do as the engine does with what a task raised."""
    match error:
        case Snooze():
            return Outcome(Ending.SNOOZED, wait=error.wait)
        case RetryAfter():
            return Outcome(Ending.FAILED, error, wait=error.wait)
        case Fail():
            return Outcome(Ending.FAILED, error, retryable=False)
        case JobCanceled():
            return Outcome(Ending.CANCELED, reason=error.reason)
        case _:
            return Outcome(Ending.FAILED, error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain"),
        KeyError("never"),
        raised_from(ValueError("wrapped"), raised_from(OSError(), IndexError("never"))),
        RetryAfter(timedelta(seconds=9), "soon"),
        raised_from(RetryAfter(timedelta(seconds=9)), KeyError("never")),
        Snooze(timedelta(minutes=2)),
        Fail("no use"),
        JobCanceled(JOB, "enough"),
        JobCanceled(JOB),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_an_exception_of_a_child_leads_to_the_same_decision(error: BaseException) -> None:
    came = retold(tell(error, POLICY), JOB)
    here, there = outcome_of(error), outcome_of(came)
    assert (here.ending, here.wait, here.reason) == (there.ending, there.wait, there.reason)
    for attempt in (1, 2, 3):
        assert decide(here, attempt, POLICY, 0) == decide(there, attempt, POLICY, 0)
        lenient = Retry(max_attempts=3)
        assert decide(here, attempt, lenient, 0) == decide(there, attempt, lenient, 0)
    if here.ending is Ending.FAILED:
        assert describe(came) == describe(error)
        assert failure_of(came) == failure_of(error)


def test_an_error_that_came_from_a_child_knows_its_class_by_name() -> None:
    came = retold(tell(KeyError("k"), POLICY), JOB)
    assert isinstance(came, RemoteError)
    assert came.type_name == "builtins.KeyError"
    assert str(came) == "KeyError: 'k'"


def test_middleware_that_wraps_such_an_error_does_not_make_it_retried() -> None:
    wrapped = raised_from(RuntimeError("in the middleware"), retold(tell(KeyError(), POLICY), JOB))
    assert decide(outcome_of(wrapped), 1, POLICY, 0).state is State.FAILED
