"""What `Notifier` promises: hints arrive soon, few and without an error; all may be lost.

To check a notifier of your own, write a test module with one class and two fixtures: `notifier`,
and `peer`, which is what another process would have. `stranger` is one of another scheduler on the
same server, for carriers that several can share.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import pytest

from detent.spi.notifier import (
    EVERYONE,
    BreakerHint,
    Heard,
    Hint,
    LeaderHint,
    LockHint,
    Notifier,
    ScheduleHint,
    SignalHint,
    Silence,
    Wake,
)

PATIENCE: Final = 20.0
MOMENT: Final = datetime(2030, 1, 1, 12, 0, 0, 123457, tzinfo=UTC)
FIRST, SECOND = UUID(int=1 << 100), UUID(int=(1 << 100) + 1)

EVERY_KIND: Final[tuple[Wake, ...]] = (
    Hint("mail"),
    Hint("mail+gpu", 3),
    Hint("größe", 2, MOMENT, FIRST),
    SignalHint(FIRST),
    SignalHint(EVERYONE),
    LeaderHint("scheduler"),
    LockHint("scheduler"),
    BreakerHint("scheduler"),
    ScheduleHint(),
    LockHint("nächtlich 🌙 " + "x" * 240),
)


class Ears:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.heard: list[Wake] = []
        self.looks = 0
        """How often it was told to look for itself."""
        self.silences: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, heard: Sequence[Heard]) -> None:
        self.looks += not heard
        for each in heard:
            if isinstance(each, Silence):
                self.silences.append(each.reason)
            else:
                self.heard.append(each)
        self._changed.set()

    async def until(self, *wanted: Wake, looks: int = 0, silences: int = 0) -> None:
        """Wait until all of that was heard."""

        def is_heard() -> bool:
            told = self.looks >= looks and len(self.silences) >= silences
            return told and set(wanted) <= set(self.heard)

        await self.wait_for(is_heard)

    async def wait_for(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that depends on what was heard."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def listening(notifier: Notifier) -> AsyncIterator[Ears]:
    """Listen while the block runs; it begins when wake-ups arrive."""
    ears = Ears()
    listener = asyncio.create_task(notifier.listen(ears))
    try:
        await ears.until(looks=1)
        yield ears
    finally:
        listener.cancel()
        await asyncio.wait([listener])


class NotifierConformance:
    """Publishing, listening, coalescing."""

    @pytest.fixture
    def stranger(self) -> Notifier | None:
        """Return one of another scheduler that shares the carrier, if several can."""
        return None

    async def leave(self, notifier: Notifier) -> None:
        """Let go of what an event loop uses; a store may have to be closed as well."""
        await notifier.close()

    async def test_who_listens_is_told_to_look_first(self, notifier: Notifier) -> None:
        async with listening(notifier) as ears:
            assert (ears.looks, ears.heard, ears.silences) == (1, [], [])

    async def test_another_process_is_heard(self, notifier: Notifier, peer: Notifier) -> None:
        async with listening(notifier) as ears:
            for wake in EVERY_KIND:
                peer.publish([wake])
            await ears.until(*EVERY_KIND)
            assert set(ears.heard) == set(EVERY_KIND)

    async def test_so_is_ones_own(self, notifier: Notifier) -> None:
        async with listening(notifier) as ears:
            notifier.publish(EVERY_KIND)
            await ears.until(*EVERY_KIND)
            assert set(ears.heard) == set(EVERY_KIND)

    async def test_everybody_hears_everything(self, notifier: Notifier, peer: Notifier) -> None:
        async with listening(notifier) as one, listening(notifier) as two, listening(peer) as three:
            peer.publish([Hint("mail")])
            await asyncio.gather(*(ears.until(Hint("mail")) for ears in (one, two, three)))

    async def test_a_stream_of_the_same_becomes_a_trickle(
        self, notifier: Notifier, peer: Notifier
    ) -> None:
        async with listening(notifier) as ears:
            for _ in range(1000):
                peer.publish([Hint("mail"), Hint("other")])
            peer.publish([Hint("last")])
            await ears.until(Hint("mail"), Hint("other"), Hint("last"))
            assert len(ears.heard) <= 20

    async def test_the_lowest_position_is_not_lost_in_it(
        self, notifier: Notifier, peer: Notifier
    ) -> None:
        """The floor of a node that did not hear of it would hide the job."""
        lowest = Hint("mail", 2, MOMENT, FIRST)
        async with listening(notifier) as ears:
            for seconds in (3, 0, 7):
                at = MOMENT + timedelta(seconds=seconds)
                peer.publish([Hint("mail", 2, at, SECOND if seconds else FIRST)])
            await ears.until(lowest)

    async def test_many_lanes_at_once_are_told_or_looked_for(
        self, notifier: Notifier, peer: Notifier
    ) -> None:
        hints = [Hint(f"lane-{number}", 2, MOMENT, SECOND) for number in range(500)]
        async with listening(notifier) as ears:
            peer.publish(hints)
            await ears.wait_for(lambda: set(hints) <= set(ears.heard) or ears.looks > 1)

    async def test_nothing_is_nothing(self, notifier: Notifier, peer: Notifier) -> None:
        """An empty call means "you may have missed something", which is not so."""
        async with listening(notifier) as ears:
            peer.publish([])
            peer.publish([Hint("mail")])
            await ears.until(Hint("mail"))
            assert ears.heard == [Hint("mail")]

    async def test_another_event_loop_can_publish(self, notifier: Notifier, peer: Notifier) -> None:
        async def elsewhere() -> None:
            peer.publish([Hint("mail")])
            await self.leave(peer)

        async with listening(notifier) as ears:
            await asyncio.to_thread(asyncio.run, elsewhere())
            await ears.until(Hint("mail"))

    async def test_so_can_a_thread_without_one(self, notifier: Notifier, peer: Notifier) -> None:
        def publish() -> None:
            peer.publish([Hint("mail")])
            peer.publish([Hint("other")])

        async with listening(notifier) as ears:
            thread = threading.Thread(target=publish)
            thread.start()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "publishing waits for nobody"
            await ears.until(Hint("mail"), Hint("other"))

    async def test_a_listener_can_come_later(self, notifier: Notifier, peer: Notifier) -> None:
        peer.publish([Hint("mail")])
        await peer.flush()
        async with listening(notifier) as ears:
            peer.publish([Hint("other")])
            await ears.until(Hint("other"))

    async def test_who_listens_no_more_is_told_no_more(
        self, notifier: Notifier, peer: Notifier
    ) -> None:
        async with listening(notifier) as gone:
            pass
        async with listening(notifier) as ears:
            peer.publish([Hint("mail")])
            await ears.until(Hint("mail"))
            assert gone.heard == []

    async def test_nobody_need_listen(self, notifier: Notifier, peer: Notifier) -> None:
        for each in (notifier, peer):
            each.publish([Hint("mail")])
            await each.flush()

    async def test_it_can_be_used_after_it_was_closed(
        self, notifier: Notifier, peer: Notifier
    ) -> None:
        """Closing is for the end of one event loop; another may begin."""
        peer.publish([Hint("before")])
        await peer.close()
        await peer.close()
        async with listening(notifier) as ears:
            peer.publish([Hint("mail")])
            await ears.until(Hint("mail"))

    async def test_schedulers_that_share_a_carrier_do_not_hear_each_other(
        self, notifier: Notifier, peer: Notifier, stranger: Notifier | None
    ) -> None:
        if stranger is None:
            pytest.skip("nobody else can be on this carrier")
        async with listening(notifier) as ears, listening(stranger) as others:
            stranger.publish([Hint("theirs")])
            await others.until(Hint("theirs"))
            peer.publish([Hint("ours")])
            await ears.until(Hint("ours"))
            assert (ears.heard, others.heard) == ([Hint("ours")], [Hint("theirs")])
