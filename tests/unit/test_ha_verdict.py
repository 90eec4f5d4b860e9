"""If these fail, `make ha` says that all is well whatever happened."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.chaos.tasks import BEGIN, Effect
from tests.ha.__main__ import in_turn
from tests.ha.tasks import LEFT
from tests.ha.traces import (
    Stretch,
    beside_themselves,
    gaps,
    most_at_once,
    not_greater,
    overlaps,
    stretches,
    told_twice,
)


def effect(what: str, job: UUID, at: float, fence: int = 1) -> Effect:
    return Effect(what, job, fence, UUID(int=0), 1, at)


def test_a_daemon_on_two_nodes_is_found(tmp_path: Path) -> None:
    (tmp_path / "1.daemon").write_text("a 10.0 1\na 10.5 1\nb 12.0 3\nb 13.0 3\n")
    (tmp_path / "2.daemon").write_text("c 10.6 2\nc 11.9 2\n")
    (tmp_path / "2.lock").write_text("d 10.0 1\nd 13.0 1\n")
    found = stretches(tmp_path, "daemon")
    assert found == [Stretch(10, 10.5, 1, 1), Stretch(10.6, 11.9, 2, 2), Stretch(12, 13, 1, 3)]
    assert overlaps(found) == []
    assert gaps(found) == pytest.approx([0.1, 0.1])
    (tmp_path / "2.daemon").write_text("c 10.4 2\nc 11.9 2\n")
    assert overlaps(stretches(tmp_path, "daemon")) == ["for 0.10 s (processes 1, 2)"]


def test_a_daemon_that_runs_twice_in_one_process_is_found() -> None:
    found = [Stretch(10.0, 12.0, 1, 1), Stretch(11.5, 13.0, 1, 2)]
    assert overlaps(found) == ["for 0.50 s (processes 1, 1)"]


@pytest.mark.parametrize(
    "numbers, pids, broken",
    [
        ((1, 2, 3), (1, 2, 1), 0),
        ((1, 1, 2), (1, 1, 1), 0),  # started again in its term
        ((1, 1, 2), (1, 2, 1), 1),
        ((81, 1, 2), (1, 1, 1), 1),
    ],
)
def test_a_number_that_does_not_grow_is_found(
    numbers: tuple[int, ...], pids: tuple[int, ...], broken: int
) -> None:
    pairs = zip(numbers, pids, strict=True)
    found = [Stretch(at, at + 0.5, pid, number) for at, (number, pid) in enumerate(pairs)]
    assert len(not_greater(found)) == broken


def test_a_limit_that_was_exceeded_is_found() -> None:
    jobs = [uuid4() for _ in range(3)]
    effects = [effect(BEGIN, jobs[0], 1), effect(BEGIN, jobs[1], 2), effect(LEFT, jobs[0], 3)]
    effects.append(effect(BEGIN, jobs[2], 4))
    assert most_at_once(effects, set(jobs)) == 2
    assert most_at_once(effects, {jobs[0]}) == 1


def test_a_job_that_runs_beside_itself_is_found() -> None:
    job = uuid4()
    again = [effect(BEGIN, job, 1), effect(LEFT, job, 2), effect(BEGIN, job, 3, fence=2)]
    assert beside_themselves(again, {job}) == []
    twice = [effect(BEGIN, job, 1), effect(BEGIN, job, 2, fence=2), effect(LEFT, job, 3)]
    assert beside_themselves(twice, {job}) == [job]
    assert beside_themselves(twice, set()) == []


def test_an_end_that_was_told_by_two_nodes_is_found(tmp_path: Path) -> None:
    one, two = uuid4(), uuid4()
    (tmp_path / "1.told").write_text(f"{one}\n{two}\n")
    (tmp_path / "2.told").write_text("")
    assert told_twice(tmp_path) == []
    (tmp_path / "2.told").write_text(f"{two}\n")
    assert told_twice(tmp_path) == [f"{two} 2 times"]


def test_faults_come_in_turn() -> None:
    assert in_turn({"host": 1, "silent": 3}) == ["host", "silent", "silent", "silent"]
