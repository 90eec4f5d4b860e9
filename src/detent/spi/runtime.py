"""Time, chance and concurrency as one injected value, so that the engine can be simulated.

Nothing in the engine asks the operating system for these itself: the same engine code then
runs in production and, bit for bit repeatable, in a simulation.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID


class Cancelable(Protocol):
    """Something that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has happened."""


class Thread(Protocol):
    """Something that runs beside the event loop."""

    def stop(self) -> None:
        """Ask it to end; returns at once."""

    async def joined(self) -> None:
        """Wait until it has ended."""


class Runtime(Protocol):
    """What a node needs from the world besides its store."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never steps; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Let others run for that long."""

    def later(self, seconds: float, action: Callable[[], None]) -> Cancelable:
        """Call `action` after that long, unless the returned handle is canceled."""

    def random_bits(self, bits: int) -> int:
        """Return that many random bits as an integer."""

    def uniform(self, low: float, high: float) -> float:
        """Return a random number between low and high."""

    def new_id(self) -> UUID:
        """Return a new job or node id."""

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        """Run a coroutine as a task of the running loop and return the task."""

    def utcnow(self) -> datetime:
        """Return this machine's wall clock, for people and for measuring skew, never for rules."""

    def thread(self, work: Callable[[], Awaitable[None]], name: str) -> Thread:
        """Run an async function on a thread and event loop of its own."""

    def blocking(self, work: Callable[[], Any], name: str) -> "asyncio.Future[Any]":
        """Run a blocking function on a thread that does not keep the process alive.

        The future belongs to the running loop; canceling it leaves the thread alone.
        """
