"""What a subject must offer to be measured: a schema, a producer, a worker.

An adapter is a module with these names. It runs inside the subject's own environment, reads the
database from `database_url()`, and its task body calls `probe.hit(number)` and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

URL = "BENCH_URL"
T = TypeVar("T")


def database_url() -> str:
    return os.environ[URL]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where it is installed: every subject gets the faster loop."""
    import asyncio  # noqa: PLC0415 - the choice of the loop is made here

    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


class Producer(Protocol):
    """A program that enqueues."""

    async def open(self, callers: int, *, wake: bool) -> None:
        """Connect for this many concurrent callers. `wake`: an idle node must hear of each job."""

    async def one(self, number: int) -> None:
        """Enqueue one job and return when it is durable."""

    async def many(self, numbers: Sequence[int]) -> None:
        """Enqueue by the subject's own bulk call."""

    async def close(self) -> None: ...


class Adapter(Protocol):
    """The module itself."""

    Producer: type[Producer]

    def install(self) -> Awaitable[None]:
        """Create the schema in an empty database."""

    def work(self) -> Awaitable[None]:
        """Run jobs until the process is told to stop."""
