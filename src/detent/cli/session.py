"""A store to speak to, for commands that need no app: only its URL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from detent.cli.command import Failed, NotUnderstood
from detent.cli.running import run
from detent.codecs import JsonCodec
from detent.config import Config
from detent.databases import open_store
from detent.jobs import Jobs
from detent.nodes import Nodes
from detent.queues import Queues
from detent.spi.store import Store
from detent.stores.sqlite.address import path_of

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Session:
    """An open store, and the same faces of it that an app has."""

    store: Store
    jobs: Jobs
    queues: Queues
    nodes: Nodes


def with_session(config: Config, work: Callable[[Session], Awaitable[Result]]) -> Result:
    """Open the store, do some work with it, and close it."""

    async def whole() -> Result:
        async with _open(config) as session:
            return await work(session)

    refuse_memory(config)
    _refuse_missing_file(config)
    return run(whole(), config)


@asynccontextmanager
async def _open(config: Config) -> AsyncIterator[Session]:
    store, notifier = open_store(config)
    try:
        await store.open()
        yield Session(
            store,
            Jobs(store, store, JsonCodec()),
            Queues(store, store, notifier),
            Nodes(store, notifier, config.cluster.max_crashes),
        )
    finally:
        if notifier is not None:
            await notifier.close()
        await store.close()


def refuse_memory(config: Config) -> None:
    """Say that nobody can look into another process, rather than show an empty list."""
    if config.store.url.startswith("memory:"):
        raise NotUnderstood(
            f"[store] url = {config.store.url!r}: lives in the memory of one process, so this "
            "command would see nothing of it; use --url or DETENT_URL"
        )


def _refuse_missing_file(config: Config) -> None:
    """Say that there is nothing to look at, rather than make an empty file in some folder."""
    if not config.store.url.startswith("sqlite:"):
        return
    path = path_of(config.store.url, config.store.schema)
    if not Path(path).exists():
        raise Failed(
            f"{path} does not exist: nothing was ever enqueued there; "
            "--url, DETENT_URL or detent.toml name another store"
        )
