"""If these fail, threads that nobody waits for any more complain to whoever reads the terminal."""

import asyncio
import threading
from typing import Any

import pytest

from detent.clock import SystemRuntime


def fail() -> None:
    raise ValueError("bad")


@pytest.mark.parametrize("end", [lambda: 7, fail])
async def test_a_thread_that_nobody_waits_for_ends_in_peace(
    end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[BaseException | None] = []
    monkeypatch.setattr("threading.excepthook", lambda args: complaints.append(args.exc_value))
    going, threads = threading.Event(), list[threading.Thread]()

    def work() -> Any:
        threads.append(threading.current_thread())
        going.wait(10)
        return end()

    waiting = SystemRuntime().blocking(work, "test-blocking")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)  # the thread's side is told by the loop
    going.set()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
    assert complaints == []
