"""If these fail, the wrong one is blamed, or nobody learns why a node was fenced."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from detent._engine.dispatch import Dispatcher
from detent._engine.watchdog import LOOK, Watchdog
from detent.events import Bus, LoopBlocked, ProcessHeldUp
from detent.testing.virtual import VirtualRuntime, in_virtual_time

NODE, JOB = UUID(int=1), UUID(int=2)


class Jerky(VirtualRuntime):
    """A runtime whose clock jumps while everybody sleeps, as for a process that was held up."""

    def __init__(self) -> None:
        super().__init__("jerky")
        self.jump = 0.0
        self._jumped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._jumped

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._jumped += self.jump
        self.jump = 0.0


class Scene:
    """A watchdog over a loop on which one job runs."""

    def __init__(self, *tasks: str) -> None:
        self.told: list[Any] = []
        bus = Bus()
        bus.subscribe(LoopBlocked, self.told.append)
        bus.subscribe(ProcessHeldUp, self.told.append)
        self.runtime = Jerky()
        self.attempts = [
            SimpleNamespace(claim=SimpleNamespace(id=JOB, task=task), node_id=NODE, task=None)
            for task in tasks
        ]
        dispatcher = SimpleNamespace(executing=lambda: self.attempts)
        self.watchdog = Watchdog(
            self.runtime,
            bus,
            dispatcher=cast("Dispatcher", dispatcher),
            patience=timedelta(seconds=1),
            stack=lambda: "mail.py:7 in send",
        )

    async def look(self, rounds: int = 1) -> None:
        looking = asyncio.ensure_future(self.watchdog.look_on())
        await asyncio.sleep(rounds * LOOK + 0.01)
        looking.cancel()


@in_virtual_time
async def test_while_the_loop_goes_on_nothing_is_told() -> None:
    scene = Scene("mail.send")
    beating = asyncio.ensure_future(scene.watchdog.run())
    await scene.look(rounds=40)
    beating.cancel()
    assert scene.told == []


@in_virtual_time
async def test_a_loop_that_stands_still_is_told_with_its_stack() -> None:
    scene = Scene("mail.send")
    await scene.watchdog.run_once()
    await scene.look(rounds=6)
    (event,) = scene.told
    assert isinstance(event, LoopBlocked)
    assert event.stack == "mail.py:7 in send"


@in_virtual_time
async def test_a_watchdog_that_was_told_to_stop_looks_no_longer() -> None:
    """The last steps of a node may take their time, and nobody beats any more."""
    scene = Scene()
    beating = asyncio.ensure_future(scene.watchdog.run())
    await scene.look(rounds=2)
    scene.watchdog.stop()
    await beating
    await scene.look(rounds=20)
    assert scene.told == []


@pytest.mark.parametrize("tasks", [("mail.send", "mail.sort", "mail.send"), ()])
@in_virtual_time
async def test_when_the_watcher_was_held_up_too_it_was_the_whole_process(
    tasks: tuple[str, ...],
) -> None:
    scene = Scene(*tasks)
    await scene.watchdog.run_once()
    scene.runtime.jump = 4.5
    await scene.look()
    (event,) = scene.told
    assert isinstance(event, ProcessHeldUp)
    assert event.seconds == pytest.approx(4.5, abs=0.1)
    assert event.tasks == list(dict.fromkeys(tasks))


@in_virtual_time
async def test_the_job_that_has_the_loop_at_that_moment_is_named() -> None:
    scene = Scene("mail.sort", "mail.send")
    await scene.watchdog.run_once()
    scene.runtime.jump = 4.5
    looking = asyncio.ensure_future(scene.watchdog.look_on())
    # Here both share a loop, so the one that looks is the one that runs.
    scene.attempts[1].task = looking
    await asyncio.sleep(LOOK + 0.01)
    looking.cancel()
    (event,) = scene.told
    assert (event.node, event.job_id, event.task) == (NODE, JOB, "mail.send")
