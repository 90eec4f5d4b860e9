"""If these fail, wake-ups are lost with the event loop that published them."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from detent.notifiers import outbox
from detent.notifiers.outbox import Outboxes
from detent.spi.notifier import Hint, Wake

FIRST, SECOND, THIRD = Hint("first"), Hint("second"), Hint("third")


class Post:
    """Carries wake-ups, and may take its time."""

    def __init__(self, hold: Callable[[], Any] | None = None) -> None:
        self.sent: list[Wake] = []
        self.tries = 0
        self.boxes = Outboxes(self._send, self._send_alone)
        self._hold = hold

    async def _send(self, wakes: Sequence[Wake]) -> None:
        self.tries += 1
        if self._hold is not None and self.tries == 1:
            await self._hold()
        self.sent += wakes

    async def _send_alone(self, wakes: Sequence[Wake]) -> None:
        self.sent += [*wakes, "alone"]  # type: ignore[list-item]

    def publish(self, *wakes: Wake) -> None:
        self.boxes.here().add(wakes)


def test_a_loop_that_closes_between_two_sends_has_said_everything() -> None:
    post = Post()

    async def main() -> None:
        post.publish(FIRST)
        await post.boxes.here().flushed()
        post.publish(SECOND)
        post.publish(THIRD)

    asyncio.run(main())
    assert post.sent == [FIRST, SECOND, THIRD]


def test_what_was_on_its_way_when_the_loop_closed_is_said_again() -> None:
    post = Post(hold=lambda: asyncio.sleep(60))

    async def main() -> None:
        post.publish(FIRST)
        await asyncio.sleep(0)
        post.publish(SECOND)

    asyncio.run(main())
    assert (post.sent, post.tries) == ([FIRST, SECOND], 2)


def test_a_loop_that_closes_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PATIENCE", 0.05)
    post = Post()
    monkeypatch.setattr(post.boxes, "_send", lambda _: asyncio.sleep(3600))

    async def main() -> None:
        post.publish(FIRST)
        await post.boxes.here().flushed()

    asyncio.run(asyncio.wait_for(main(), 5))
    assert post.sent == []


def test_the_next_loop_says_what_a_closed_one_left() -> None:
    post = Post()
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        post.publish(FIRST)
        await post.boxes.here().flushed()
        post.publish(SECOND)

    loop.run_until_complete(leave())
    loop.close()
    assert post.sent == [FIRST]

    async def go_on() -> None:
        post.publish(THIRD)
        await post.boxes.here().flushed()

    asyncio.run(go_on())
    assert post.sent == [FIRST, SECOND, THIRD]


def test_the_exit_says_what_is_left_of_loops_that_stand_still() -> None:
    post = Post()
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        post.publish(FIRST)
        await post.boxes.here().flushed()
        post.publish(SECOND)

    loop.run_until_complete(leave())
    post.boxes.flush_at_exit(time.monotonic() + 1)
    assert post.sent == [FIRST, SECOND, "alone"]
    post.boxes.flush_at_exit(time.monotonic() + 1)
    assert post.sent == [FIRST, SECOND, "alone"], "once"
    loop.close()


def test_a_fork_leaves_the_wake_ups_of_its_parent_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    post = Post()

    async def leave() -> None:
        post.publish(FIRST)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(asyncio.sleep(0))
    monkeypatch.setattr(post.boxes, "_send", lambda _: asyncio.sleep(3600))
    loop.run_until_complete(leave())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    post.boxes.flush_at_exit(time.monotonic() + 1)
    assert post.sent == []
    loop.close()


async def test_a_stream_is_thinned_out() -> None:
    post = Post()
    for number in range(200):
        post.publish(Hint(f"lane {number % 3}"))
        await asyncio.sleep(0)
    await post.boxes.here().flushed()
    assert set(post.sent) == {Hint(f"lane {number}") for number in range(3)}
    assert post.tries <= 4, "one at once, the others together"


async def test_after_a_pause_a_wake_up_goes_out_at_once() -> None:
    """Even when the loop stood still meanwhile, as between two calls of run_until_complete."""
    post = Post()
    post.publish(FIRST)
    await post.boxes.here().flushed()
    await asyncio.sleep(outbox.PAUSE)
    post.publish(SECOND)
    await asyncio.sleep(0)
    assert post.sent == [FIRST, SECOND]
