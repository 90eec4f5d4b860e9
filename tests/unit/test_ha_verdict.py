"""If these fail, `make ha` says that all is well whatever happened."""

from pathlib import Path
from uuid import UUID, uuid4

from tests.chaos.tasks import BEGIN, Effect
from tests.ha.__main__ import in_turn
from tests.ha.tasks import LEFT, Stretch, most_at_once, overlaps, stretches


def test_a_daemon_on_two_nodes_is_found(tmp_path: Path) -> None:
    (tmp_path / "1.daemon").write_text("a 10.0\na 10.5\nb 12.0\nb 13.0\n")
    (tmp_path / "2.daemon").write_text("c 10.6\nc 11.9\n")
    found = stretches(tmp_path)
    assert found == [Stretch(10.0, 10.5, 1), Stretch(10.6, 11.9, 2), Stretch(12.0, 13.0, 1)]
    assert overlaps(found) == []
    (tmp_path / "2.daemon").write_text("c 10.4\nc 11.9\n")
    assert overlaps(stretches(tmp_path)) == ["for 0.10 s (processes 1, 2)"]


def test_a_limit_that_was_exceeded_is_found() -> None:
    jobs = [uuid4() for _ in range(3)]

    def effect(what: str, job: UUID, at: float) -> Effect:
        return Effect(what, job, 1, UUID(int=0), 1, at)

    effects = [effect(BEGIN, jobs[0], 1), effect(BEGIN, jobs[1], 2), effect(LEFT, jobs[0], 3)]
    effects.append(effect(BEGIN, jobs[2], 4))
    assert most_at_once(effects, set(jobs)) == 2
    assert most_at_once(effects, {jobs[0]}) == 1


def test_faults_come_in_turn() -> None:
    assert in_turn({"host": 1, "silent": 3}) == ["host", "silent", "silent", "silent"]
