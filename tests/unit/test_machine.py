"""If these fail, a node tells others something else of its machine than what it is."""

import pytest

from detent import machine


def test_how_busy_a_process_is_does_not_depend_on_who_asked_a_moment_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = {"monotonic": 100.0, "process_time": 5.0}
    monkeypatch.setattr("detent.machine.time.monotonic", lambda: clocks["monotonic"])
    monkeypatch.setattr("detent.machine.time.process_time", lambda: clocks["process_time"])
    read = machine.meter()
    assert read()["cpu"] == 0.0
    clocks.update(monotonic=104.0, process_time=7.0)
    assert read()["cpu"] == 0.5
    clocks.update(monotonic=104.001, process_time=7.001)
    assert read()["cpu"] == 0.5, "nobody is busy or idle for a millisecond"
    clocks.update(monotonic=106.0, process_time=7.2)
    load = read()
    assert load["cpu"] == 0.1
    assert load["rss"] == pytest.approx(machine.resident_bytes() or 0, rel=0.5)
