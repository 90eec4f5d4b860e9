"""A store to speak to, for commands that need no app: only its URL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from detent.breakers import Breakers
from detent.cli.command import Failed, NotUnderstood
from detent.cli.groups import meant
from detent.cli.running import run
from detent.clock import SystemRuntime
from detent.codecs import JsonCodec
from detent.config import Config
from detent.databases import open_store
from detent.events import Bus
from detent.jobs import Jobs
from detent.limits import Limits
from detent.locks import Locks
from detent.model.job import JobFilter
from detent.nodes import Nodes
from detent.protection import Protection, open_sealing, read_redaction
from detent.queues import Queues
from detent.spi.notifier import Notifier
from detent.spi.store import Store
from detent.stores.sqlite.address import path_of
from detent.views import Views

if TYPE_CHECKING:
    from detent.calendars import Calendars
    from detent.schedules import Schedules

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Session:
    """An open store, and the same faces of it that an app has."""

    store: Store
    jobs: Jobs
    queues: Queues
    nodes: Nodes
    notifier: Notifier | None
    config: Config
    protection: Protection

    @property
    def locks(self) -> Locks:
        """All locks."""
        return Locks(
            self.store, self.notifier, runtime=SystemRuntime(), bus=Bus(), call=asyncio.run
        )

    @property
    def schedules(self) -> "Schedules":
        """All schedules; without an app, the arguments of a task cannot be checked."""
        from detent.schedules import Schedules  # noqa: PLC0415  few commands need it

        return Schedules(
            self.store,
            jobs=self.jobs,
            codec=JsonCodec(),
            runtime=SystemRuntime(),
            config=self.config.schedules,
            notifier=self.notifier,
            protection=self.protection,
        )

    @property
    def breakers(self) -> Breakers:
        """All circuit breakers that were ever used."""
        return Breakers(self.store, self.notifier, bus=Bus(), declared={})

    @property
    def limits(self) -> Limits:
        """All limits."""
        return Limits(self.store, self.notifier)

    @property
    def calendars(self) -> "Calendars":
        """All calendars."""
        from detent.calendars import Calendars  # noqa: PLC0415  few commands need it

        return Calendars(self.store, self.notifier)


def with_session(config: Config, work: Callable[[Session], Awaitable[Result]]) -> Result:
    """Open the store, do some work with it, and close it."""

    async def whole() -> Result:
        async with _open(config) as session:
            return await work(session)

    refuse_memory(config)
    _refuse_missing_file(config)
    return run(whole(), config)


async def check_queue(session: Session, name: str) -> None:
    """Refuse a queue that nobody has ever used: most likely its name is mistyped."""
    known = {queue.name: None for queue in await session.queues.list()}
    for node in await session.store.nodes():
        known |= dict.fromkeys(node.queues)
    if name not in known and not await session.store.list_jobs(JobFilter(queue=name), 1):
        hint = meant(name, sorted(known), "known are") if known else "there is none yet"
        raise Failed(f"no queue is named {name!r}; {hint}")


@asynccontextmanager
async def _open(config: Config) -> AsyncIterator[Session]:
    protection = _protection(config)
    store, notifier = open_store(config)
    try:
        await store.open()
        yield Session(
            store,
            Jobs(store, store, JsonCodec(), protection),
            Queues(store, store, notifier),
            Nodes(store, notifier, config.cluster.max_crashes),
            notifier,
            config,
            protection,
        )
    finally:
        if notifier is not None:
            await notifier.close()
        await store.close()


def _protection(config: Config) -> Protection:
    """Return what seals, opens and hides: keys, if the settings have some, and fields to hide."""
    encryption = config.encryption
    sealing = open_sealing(encryption, SystemRuntime()) if encryption.keys else None
    made = Protection(config.limits, Views(sealing, read_redaction(config.redaction)))
    made.sealing = sealing
    made.everything = encryption.enabled
    return made


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
