"""If these fail, one bad round ends a service for good, or trouble is shouted without end."""

import asyncio
import itertools
from collections.abc import Callable

import pytest

from detent._engine.service import LONGEST_PAUSE, Service
from detent.errors import StoreUnavailable
from detent.events import Bus, StoreRecovered, StoreTrouble
from detent.testing.simulation.history import listen_to_all
from detent.testing.virtual import VirtualRuntime, in_virtual_time


class Clockwork(Service):
    """A service that notes when it ran, and does what it is told."""

    name = "clockwork"

    def __init__(self, delay: float, act: Callable[[int], None] = lambda round_: None) -> None:
        bus = Bus()
        super().__init__(VirtualRuntime(), bus)
        self.events: list[object] = []
        listen_to_all(bus, self.events.append)
        self.rounds: list[float] = []
        self._delay = delay
        self._act = act

    async def run_once(self) -> float:
        self.rounds.append(self.runtime.monotonic())
        self._act(len(self.rounds))
        return self._delay


async def run_for(service: Service, seconds: float) -> None:
    """Let a service run for a while, and see that it ends when told."""
    task = asyncio.ensure_future(service.run())
    await asyncio.sleep(seconds)
    service.stop()
    await asyncio.wait_for(task, LONGEST_PAUSE + 1)


@in_virtual_time
async def test_it_runs_again_after_the_wait_that_the_round_asked_for() -> None:
    service = Clockwork(delay=10)
    await run_for(service, 35)
    assert service.rounds == [0, 10, 20, 30]


@in_virtual_time
async def test_being_woken_cuts_the_wait_short() -> None:
    service = Clockwork(delay=10)
    asyncio.get_running_loop().call_later(13, service.wake)
    await run_for(service, 25)
    assert service.rounds == [0, 10, 13, 23]


@in_virtual_time
async def test_a_round_that_asks_nothing_is_no_sign_that_the_store_answers() -> None:
    rounds = iter(["trouble", "nothing", "nothing", "answer", "nothing"])

    class Occasional(Clockwork):
        async def run_once(self) -> float:
            what = next(rounds)
            self.rounds.append(self.runtime.monotonic())
            if what == "trouble":
                raise StoreUnavailable("gone")
            return self.unasked(1.0) if what == "nothing" else 1.0

    service = Occasional(delay=1)
    told_before = list[int]()
    service.bus.subscribe(StoreRecovered, lambda _event: told_before.append(len(service.rounds)))
    await run_for(service, 3.9)
    assert told_before == [4], "not before it was asked"


@in_virtual_time
async def test_being_woken_during_a_round_means_another() -> None:
    service = Clockwork(delay=10, act=lambda round_: service.wake() if round_ == 1 else None)
    await run_for(service, 5)
    assert service.rounds == [0, 0]


@in_virtual_time
async def test_trouble_is_waited_out_with_growing_pauses_and_told_twice() -> None:
    def act(round_: int) -> None:
        if 2 <= round_ <= 12:
            raise StoreUnavailable("down")

    service = Clockwork(delay=1, act=act)
    await run_for(service, 120)
    pauses = [later - sooner for sooner, later in itertools.pairwise(service.rounds)]
    assert 0.05 <= pauses[1] <= 0.1
    assert max(pauses) <= LONGEST_PAUSE
    assert pauses[8] > 10 * pauses[1]
    troubles = [event for event in service.events if isinstance(event, StoreTrouble)]
    assert troubles[0].where == "clockwork"
    assert "StoreUnavailable: down" in troubles[0].error
    assert len(troubles) <= 6, "at its beginning, and while it is at its longest"
    assert sum(isinstance(event, StoreRecovered) for event in service.events) == 1
    assert pauses[-1] == pytest.approx(1)


@in_virtual_time
async def test_an_answer_that_others_had_cuts_the_pause_after_trouble_short() -> None:
    away = True

    def act(_round: int) -> None:
        if away:
            raise StoreUnavailable("down")

    def answer() -> None:
        nonlocal away
        away = False
        service.store_answers()

    service = Clockwork(delay=1, act=act)
    asyncio.get_running_loop().call_later(60, answer)
    # Work that comes is no sign that the store is back.
    asyncio.get_running_loop().call_later(59.9, service.wake)
    await run_for(service, 60.5)
    assert [at for at in service.rounds if at > 59.8] == [60, 60], "and then what came meanwhile"


@in_virtual_time
async def test_an_answer_is_no_news_to_a_service_without_trouble() -> None:
    service = Clockwork(delay=10)
    asyncio.get_running_loop().call_later(5, service.store_answers)
    await run_for(service, 15)
    assert service.rounds == [0, 10]


@in_virtual_time
async def test_a_bug_in_a_round_does_not_end_the_service() -> None:
    def act(round_: int) -> None:
        if round_ == 1:
            raise ZeroDivisionError

    service = Clockwork(delay=1, act=act)
    await run_for(service, 5)
    assert len(service.rounds) >= 4
    assert isinstance(service.events[0], StoreTrouble)


@in_virtual_time
async def test_a_service_without_waits_lets_others_run() -> None:
    service = Clockwork(delay=0, act=lambda round_: service.stop() if round_ == 100 else None)
    await asyncio.wait_for(service.run(), 1)
    assert len(service.rounds) == 100


@in_virtual_time
async def test_canceling_it_is_not_trouble() -> None:
    service = Clockwork(delay=10)
    task = asyncio.ensure_future(service.run())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.events == []
