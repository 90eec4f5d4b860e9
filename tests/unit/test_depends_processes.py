"""If these fail, tasks in child processes lack what they depend on, or leave it open."""

import os
from pathlib import Path

import pytest

from detent import JobFailed
from tests.unit import provided_tasks as tasks

PATIENCE = 20.0


async def test_what_tasks_need_is_made_in_the_child_once_and_closed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    monkeypatch.setenv("DETENT_TEST_NOTES", str(notes))
    async with tasks.app.node():
        same, session, child = await (await tasks.on_its_loop.enqueue()).result(timeout=PATIENCE)
        assert (same, session) == (True, "session 1 True")
        assert child != os.getpid()
        assert await (await tasks.on_its_loop.enqueue()).result(timeout=PATIENCE) == [
            True,
            session,
            child,
        ]
        job = await tasks.blocking.enqueue(False)
        assert await job.result(timeout=PATIENCE) == [session, child]
        with pytest.raises(JobFailed, match="failed with session"):
            await (await tasks.blocking.enqueue(True)).result(timeout=PATIENCE)
        # One object in the child, as there is one on a node.
        counts = [await tasks.Counter.add.enqueue(number) for number in (1, 2)]
        assert {await count.result(timeout=PATIENCE) for count in counts} == {1, 3}
    await tasks.app.close()
    lines = [line.split() for line in notes.read_text().splitlines()]
    assert {int(pid) for _, pid in lines} == {child}
    words = [word for word, _ in lines]
    # A generator that is left by an exception does not come to its last line.
    assert words == ["+pool", *["+session", "-session"] * 3, "+session", "-pool"]


async def test_a_provider_in_the_child_makes_no_success_of_a_failure() -> None:
    async with tasks.app, tasks.app.node():
        with pytest.raises(JobFailed, match="ValueError: bad on the loop"):
            await (await tasks.not_forgiven.enqueue()).result(timeout=PATIENCE)
        with pytest.raises(JobFailed, match="ValueError: bad without one"):
            await (await tasks.not_forgiven_either.enqueue()).result(timeout=PATIENCE)
