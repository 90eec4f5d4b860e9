"""If these fail, a node that was told nothing by the database is told nothing at all.

The nodes here poll once an hour, so that only a wake-up can make them look.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from detent import App, Priority, State, Task
from detent.config import Config, PollingConfig, StoreConfig, WakeupConfig
from detent.events import WakeupsLost, WakeupsRestored
from detent.spi.notifier import Hint, Wake
from detent.stores.memory import MemoryNotifier
from tests.cluster.database import until
from tests.notifiers.servers import Server
from tests.within.conftest import NEVER

HOUR = timedelta(hours=1)
LATER = timedelta(minutes=1)


class Program:
    """A program of a cluster, and its tasks."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.started = asyncio.Event()
        self.echo: Task[..., Any] = app.task(name="echo")(self._echo)
        self.wait: Task[..., Any] = app.task(name="wait")(self._wait)

    async def _echo(self, word: str) -> str:
        return word

    async def _wait(self) -> None:
        self.started.set()
        await asyncio.sleep(60)


Make = Callable[..., Program]


@pytest.fixture
def store_url(request: pytest.FixtureRequest, store: str, tmp_path: Path) -> str:
    if store == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
async def make(store_url: str) -> AsyncIterator[Make]:
    apps: list[App] = []

    def make(polling: PollingConfig = NEVER, **wakeup: Any) -> Program:
        config = Config(
            store=StoreConfig(url=store_url), polling=polling, wakeup=WakeupConfig(**wakeup)
        )
        apps.append(App(config=config))
        return Program(apps[-1])

    yield make
    for app in apps:
        await app.close()


@asynccontextmanager
async def soon(what: str) -> AsyncIterator[None]:
    """Fail when the block takes longer than a wake-up may take."""
    began = time.monotonic()
    async with asyncio.timeout(20):
        yield
    assert time.monotonic() - began < 5, what


@pytest.mark.parametrize("store", ["postgres", "sqlite"])
@pytest.mark.parametrize("carrier", ["valkey", "nats"])
async def test_what_happens_elsewhere_is_heard(
    make: Make, request: pytest.FixtureRequest, carrier: str
) -> None:
    url = request.getfixturevalue(carrier).url
    here, there = make(url=url), make(url=url)
    async with here.app.node(drain_timeout=timedelta(0)):
        for word in ("first", "second"):
            async with soon("a new job"):
                assert await (await there.echo.enqueue(word)).result() == word
        async with soon("a cancel"):
            job = await there.wait.enqueue()
            await here.started.wait()
            await job.cancel()

            async def stopped() -> bool:
                return (await there.app.jobs.get(job.id)).state == State.CANCELED

            await until(stopped, "the end of the job", pause=0.01)
        async with soon("a retry"):
            await there.app.jobs.retry(job.id)
            here.started.clear()
            await here.started.wait()


@pytest.mark.parametrize("store", ["postgres"])
async def test_a_job_in_a_callers_transaction_is_hinted_at(
    make: Make, store_url: str, valkey: Server
) -> None:
    """Nobody hears of his commit; who was told too early looks again soon."""
    soon_again = PollingConfig(
        burst=timedelta(milliseconds=50), burst_polls=40, minimum=HOUR, maximum=HOUR, deep_idle=HOUR
    )
    here, there = make(soon_again, url=valkey.url), make(url=valkey.url)
    async with here.app.node():
        await (await here.echo.enqueue("warm")).result(timeout=20)
        connection = await asyncpg.connect(store_url)
        heard: list[Any] = []
        await connection.add_listener("detent_wake", lambda *args: heard.append(args))
        async with soon("an awaited transaction"):
            async with connection.transaction():
                job = await there.echo.options(within=connection).enqueue("ada")
                await asyncio.sleep(0.2)
            assert await job.result() == "ada"

        def blocking() -> Any:
            with psycopg.connect(store_url) as theirs:
                return there.echo.options(within=theirs).enqueue_sync("grace")

        async with soon("a blocking transaction"):
            assert await (await asyncio.to_thread(blocking)).result() == "grace"
        await connection.execute("SELECT 1")
        assert heard == [], "NOTIFY would cost its lock, and nobody listens"
        await connection.close()


@pytest.mark.parametrize("store", ["sqlite"])
async def test_a_node_without_its_carrier_polls_and_says_so(make: Make, valkey: Server) -> None:
    often = PollingConfig(
        burst=timedelta(milliseconds=20),
        minimum=timedelta(milliseconds=20),
        maximum=timedelta(milliseconds=20),
    )
    program = make(often, url=valkey.url)
    told: list[Any] = []
    for event in (WakeupsLost, WakeupsRestored):
        program.app.on(event, told.append)
    async with program.app.node():
        await (await program.echo.enqueue("before")).result(timeout=20)
        assert told == []
        valkey.stop()
        assert await (await program.echo.enqueue("ada")).result(timeout=20) == "ada"
        await asyncio.to_thread(valkey.start)

        async def restored() -> bool:
            return any(isinstance(event, WakeupsRestored) for event in told)

        await until(restored, "wake-ups", pause=0.01)
    assert [type(event) for event in told] == [WakeupsLost, WakeupsRestored]


class Recorder(MemoryNotifier):
    """Remembers what was published."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[Wake] = []

    def publish(self, wakes: Sequence[Wake]) -> None:
        self.published += wakes
        super().publish(wakes)


@pytest.mark.parametrize("triggers", ["due", "classic"])
@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_classic_triggers_leave_what_is_not_urgent_to_the_polls(
    triggers: str, url: str, tmp_path: Path
) -> None:
    recorder = Recorder()
    store = StoreConfig(url=url if url == "memory://" else f"sqlite:///{tmp_path / 'jobs.db'}")
    config = Config(store=store, wakeup=WakeupConfig(triggers=triggers))
    async with App(config=config, notifier=recorder) as app:
        echo = Program(app).echo

        async def published(**options: Any) -> bool:
            recorder.published.clear()
            await echo.options(**options).enqueue("x")
            return bool(recorder.published)

        assert await published(), "asked for at once"
        assert await published(priority=Priority.LOWEST)
        assert await published(delay=LATER, priority=Priority.CRITICAL), "critical"
        everything = triggers == "due"
        assert await published(delay=LATER) is everything
        assert await published(delay=LATER, priority=Priority.HIGH) is everything
        recorder.published.clear()
        later = echo.options(queue="later", delay=LATER)
        await app.enqueue_many([later.bind("a"), echo.options(queue="now").bind("b")])
        lanes = {wake.lane for wake in recorder.published if isinstance(wake, Hint)}
        assert lanes == ({"now", "later"} if everything else {"now"})


@pytest.mark.parametrize("store", ["postgres"])
@pytest.mark.parametrize("triggers, heard", [("due", 3), ("classic", 2)])
async def test_so_do_they_in_a_callers_transaction(
    make: Make, store_url: str, triggers: str, heard: int
) -> None:
    program = make(triggers=triggers)
    connection = await asyncpg.connect(store_url)
    told: list[Any] = []
    await connection.add_listener("detent_wake", lambda *args: told.append(args[3]))
    kinds: dict[str, dict[str, Any]] = {
        "now": {},
        "later": {"delay": LATER},
        "urgent": {"delay": LATER, "priority": Priority.CRITICAL},
    }
    async with connection.transaction():
        for queue, options in kinds.items():
            echo = program.echo.options(queue=queue, within=connection, **options)
            await echo.enqueue("x")
    await connection.execute("SELECT 1")

    async def all_told() -> bool:
        return len(told) == heard

    await until(all_told, f"{heard} notifications", pause=0.01)
    assert ("later" in "".join(told)) is (triggers == "due")
    await connection.close()
