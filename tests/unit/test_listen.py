"""If these fail, a node that nobody wakes any more does not know it, or does not say so."""

import asyncio
from collections.abc import Sequence
from typing import Any

from detent._engine.listen import Listener
from detent._engine.polling import Polling
from detent.config import PollingConfig
from detent.events import Bus, WakeupsLost, WakeupsRestored
from detent.spi.notifier import Hint, Receive, Silence, Wake
from detent.testing.virtual import VirtualRuntime, in_virtual_time

MAIL = Hint("mail")


class Scripted:
    """A notifier that does one thing after the other."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.calls = 0

    def publish(self, wakes: Sequence[Wake]) -> None: ...

    async def listen(self, receive: Receive) -> None:
        self.calls += 1
        while self.script:
            step = self.script.pop(0)
            await asyncio.sleep(1)
            if isinstance(step, Exception):
                raise step
            if step == "end":
                return
            receive(step)
        await asyncio.Event().wait()

    async def flush(self) -> None: ...

    async def close(self) -> None: ...


class Node:
    """What a listener is part of."""

    def __init__(self, notifier: Scripted) -> None:
        self.told: list[Any] = []
        bus = Bus()
        for event in (WakeupsLost, WakeupsRestored):
            bus.subscribe(event, self.told.append)
        listener = Listener(VirtualRuntime(), bus, notifier, lambda w: self.told.append(list(w)))
        listener.on_change = self.told.append
        self._task = asyncio.create_task(listener.run())

    async def after(self, seconds: float) -> list[Any]:
        await asyncio.sleep(seconds)
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled()
        return self.told


@in_virtual_time
async def test_wake_ups_are_passed_on() -> None:
    node = Node(Scripted((), [MAIL], [MAIL, Hint("other")]))
    assert await node.after(10) == [[], [MAIL], [MAIL, Hint("other")]]


@in_virtual_time
async def test_silence_is_told_once_and_so_is_its_end() -> None:
    silence = [Silence("refused")]
    node = Node(Scripted((), silence, silence, (), [MAIL]))
    lost, found = [False, WakeupsLost("refused")], [True, WakeupsRestored()]
    assert await node.after(10) == [[], *lost, *found, [], [MAIL]]


@in_virtual_time
async def test_a_wake_up_ends_the_silence_too() -> None:
    """A notifier of somebody's own may forget to tell us to look."""
    node = Node(Scripted([Silence("refused")], [MAIL]))
    assert (await node.after(10))[2:] == [True, WakeupsRestored(), [MAIL]]


@in_virtual_time
async def test_whatever_a_notifier_does_it_is_asked_again() -> None:
    notifier = Scripted((), ZeroDivisionError("oops"), (), "end", ())
    node = Node(notifier)
    told = await node.after(20)
    assert notifier.calls == 3
    reasons = [event.reason for event in told if isinstance(event, WakeupsLost)]
    assert reasons == ["ZeroDivisionError: oops", "the notifier has ended"]
    assert told[-1] == []


@in_virtual_time
async def test_one_that_always_fails_is_asked_less_and_less() -> None:
    notifier = Scripted(*[OSError("gone")] * 1000)
    node = Node(notifier)
    told = await node.after(600)
    assert told == [False, WakeupsLost("OSError: gone")]
    assert 20 < notifier.calls < 60


def test_a_node_that_nobody_wakes_does_not_sleep_longest() -> None:
    config = PollingConfig()
    for alone, longest in ((False, config.deep_idle), (True, config.maximum)):
        polling = Polling(config, 0.0)
        polling.alone = alone
        pauses = [polling.next_pause(0, 10, 0.0, float(now)) for now in range(0, 600, 30)]
        assert max(pauses) == longest.total_seconds()
