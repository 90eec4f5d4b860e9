"""If these fail, the jobs of blocking code are announced to nobody."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from detent.notifiers.redis import RedisNotifier
from detent.notifiers.strays import Strays
from detent.spi.notifier import Hint, Wake
from detent.testing.conformance.notifier import listening
from tests.notifiers.servers import Valkey

FIRST, SECOND, THIRD = Hint("first"), Hint("second"), Hint("third")


class Post:
    """Carries wake-ups, and may be held up."""

    def __init__(self, patience: float = 10.0) -> None:
        self.sent: list[list[Wake]] = []
        self.busy = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.strays = Strays(self._send, patience)

    async def _send(self, wakes: Sequence[Wake]) -> None:
        self.busy.set()
        while not self.go_on.is_set():  # noqa: ASYNC110  a thread sets it
            await asyncio.sleep(0.001)
        self.sent.append(list(wakes))

    def done(self) -> None:
        """Wait until its thread has ended."""
        for thread in threading.enumerate():
            if thread.name == "detent-wakeups":
                thread.join(10)
        assert self.strays._thread is None


def test_what_comes_while_it_sends_goes_together() -> None:
    post = Post()
    post.go_on.clear()
    post.strays.add([FIRST])
    assert post.busy.wait(10)
    for _ in range(100):
        post.strays.add([SECOND, THIRD])
    post.go_on.set()
    post.done()
    assert post.sent == [[FIRST], [SECOND, THIRD]]
    post.strays.add([FIRST])
    post.done()
    assert post.sent[2:] == [[FIRST]], "another thread, for another time"


def test_nobody_waits_for_ever() -> None:
    post = Post(patience=0.05)
    post.go_on.clear()
    post.strays.add([FIRST])
    post.done()
    assert post.sent == []


def test_when_it_is_too_late_for_threads_the_exit_sends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    post = Post()
    post.strays.add([FIRST])
    post.strays.add([SECOND])
    assert post.strays.take() == [FIRST, SECOND]
    assert post.strays.take() == []


def test_a_fork_leaves_what_is_its_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    post = Post()
    post.go_on.clear()
    post.strays.add([FIRST])
    assert post.busy.wait(10)
    post.strays.add([SECOND])
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert post.strays.take() == []
    monkeypatch.undo()
    post.go_on.set()
    post.done()
    assert post.sent == [[FIRST], [SECOND]]


#: Publishes without a loop, and ends at once.
SCRIPT = """
import sys
from detent.notifiers.redis import RedisNotifier
from detent.spi.notifier import Hint
RedisNotifier(sys.argv[1]).publish([Hint("mail")])
"""


async def test_a_script_that_ends_at_once_was_heard(valkey: Valkey) -> None:
    notifier = RedisNotifier(valkey.url)
    async with listening(notifier) as ears:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", SCRIPT, valkey.url],
            timeout=30,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        await ears.until(Hint("mail"))
    await notifier.close()
