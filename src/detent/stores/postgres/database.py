"""Connections: lazy pools keyed by process and event loop, so forks, threads and tests just work.

The pool is our own since ours can be simple: the statements of this package leave no session
state behind, so a returned connection needs no reset (the driver's pool sends one each time).
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from detent.errors import ConfigError
from detent.lazy import PerLoop
from detent.stores.postgres import pooled
from detent.stores.postgres.failures import (
    DRIVER_ERRORS,
    breaks_connection,
    is_of_the_server,
    is_retryable,
    translate,
)
from detent.stores.postgres.hosts import Hosts
from detent.stores.postgres.pooled import ISOLATION, PLANNER, RESTS, SET_LOCAL, learn_types
from detent.stores.postgres.statements import check_schema_name, statement

Connection: TypeAlias = Any  # asyncpg brings no types
Result = TypeVar("Result")

MAX_TRIES: Final = 6
# What tasks never hold: with all connections lent, one that waits for the store would wait for
# itself, and the node would neither claim nor finish.
KEPT: Final = 2
# How long a server may take to let a connection go.
CLOSING: Final = 2.0
# A statement that waits for so long is a reason to ask whether its server is still the right one.
SLOW: Final = 2.0
LOOK: Final = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach the database."""

    url: str
    schema: str = "detent"
    pool_size: int = 10
    pooler: bool | None = None
    """Whether a transaction pooler stands in between; None finds out."""
    timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        check_schema_name(self.schema)
        if self.pool_size < 1:
            raise ConfigError(f"[store] pool_size = {self.pool_size}: must be at least 1")


class Pool:
    """Connections of one event loop; the one used last is used next, so that few stay warm."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        size: int,
        on_slow: Callable[[], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._connect = connect
        self._on_slow = on_slow
        lent = max(size - KEPT, 1)
        self._size = max(size, lent + 1)
        self.lending = asyncio.Semaphore(lent)
        """Whoever borrows a connection for longer than a statement waits here first."""
        self._open = 0
        self._idle: list[Connection] = []
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._since: dict[Connection, float] = {}
        self._look: asyncio.TimerHandle | None = None

    async def acquire(self) -> Connection:
        """Return a connection for statements of ours; `on_slow` is called if they take long."""
        connection = await self.borrow()
        self._since[connection] = self.loop.time()
        if self._look is None:
            self._look = self.loop.call_later(LOOK, self._look_for_slow)
        return connection

    def _look_for_slow(self) -> None:
        # One timer for all of them, and none while nothing is under way.
        self._look = None
        if self._since:
            self._look = self.loop.call_later(LOOK, self._look_for_slow)
            if self.waited(*self._since) >= SLOW:
                self._on_slow()

    def waited(self, *connections: Connection) -> float:
        """Return for how many seconds the longest of these has been in use."""
        began = (self._since.get(each) for each in connections)
        return self.loop.time() - min((at for at in began if at is not None), default=inf)

    async def borrow(self) -> Connection:
        """Return a connection that nobody else uses, for as long as the caller likes."""
        while True:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < self._size:
                self._open += 1
                try:
                    return await self._connect()
                except BaseException:
                    self._open -= 1
                    self._wake()
                    raise
            waiter = self.loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # A wake-up that came with the cancellation belongs to somebody else.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise

    def release(self, connection: Connection) -> None:
        """Take a connection back; a broken one is dropped."""
        self._since.pop(connection, None)
        if connection.is_closed() or self._closed:
            connection.terminate()
            self._open -= 1
        else:
            self._idle.append(connection)
        self._wake()

    def drop_idle(self) -> None:
        """Let go of what nobody uses: each would only fail in the same way."""
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        for connection in idle:
            connection.terminate()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def close(self) -> None:
        """Close what is idle now, and the rest when it comes back."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        # All at once: each may belong to a server that does not answer.
        await asyncio.gather(*map(_close, idle))


class Database:
    """Runs named statements, with timeouts, our errors, and another try after a deadlock."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pools = PerLoop(lambda: Pool(self.connect, address.pool_size, self._suspect))
        self._pooler = address.pooler
        self._hosts = Hosts(address.url)

    def sql(self, name: str) -> str:
        """Return the text of a statement for this database's schema."""
        return statement(name, self.address.schema)

    def pool(self) -> Pool:
        """Return the pool of this process and event loop."""
        return self._pools.here()

    def _suspect(self) -> None:
        self._hosts.suspect(self.address.timeout.total_seconds())

    def connections(self) -> int:
        """Return how many connections this process has open, also those in use."""
        return self._hosts.connections.count()

    async def connect(self) -> Connection:
        """Return a new connection, set up for direct access or for a pooler as needed."""
        timeout = self.address.timeout.total_seconds()
        if await self.behind_pooler():
            connection = await self._hosts.connect(
                timeout,
                command_timeout=timeout,
                statement_cache_size=0,
                server_settings={"application_name": "detent"},
            )
            try:
                await learn_types(connection)
            except BaseException:
                connection.terminate()
                raise
            return connection
        return await self._hosts.connect(
            timeout,
            command_timeout=timeout,
            server_settings={"application_name": "detent", **PLANNER, **RESTS, **ISOLATION},
        )

    async def behind_pooler(self) -> bool:
        """Whether sessions are shared with others, so that nothing can be kept in one."""
        if self._pooler is None:
            place = await self._hosts.place(self.address.timeout.total_seconds())
            self._pooler = place.pooled
        return self._pooler

    async def fetch(self, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run one statement in a transaction of its own and return its rows."""
        sql = self.sql(name)
        for attempt in range(MAX_TRIES):
            try:
                pool = self.pool()
                connection = await pool.acquire()
                try:
                    rows = await self._run(connection, sql, args)
                except BaseException as error:
                    self._drop_if_broken(pool, connection, error)
                    raise
                finally:
                    pool.release(connection)
            except DRIVER_ERRORS as error:
                if not is_retryable(error) or attempt == MAX_TRIES - 1:
                    raise translate(error) from error
                await asyncio.sleep(_backoff(attempt))
            else:
                return rows
        raise AssertionError("the loop above returns or raises")

    async def _run(
        self, connection: Connection, sql: str, args: tuple[Any, ...]
    ) -> list[asyncpg.Record]:
        if self._pooler:
            return await pooled.fetch(connection, sql, args)
        rows: list[asyncpg.Record] = await connection.fetch(sql, *args)
        return rows

    async def transact(
        self, work: Callable[[Connection], Awaitable[Result]], *, patience: float | None = None
    ) -> Result:
        """Run `work` in one transaction, again from the start after a deadlock.

        Raises `StoreBusy` after `patience` seconds at a lock that another transaction holds.
        """
        settings = "" if patience is None else f"SET LOCAL lock_timeout = {patience * 1000:.0f}"
        for attempt in range(MAX_TRIES):
            try:
                async with self.connection() as connection, _in_transaction(connection):
                    if self._pooler:
                        await connection.execute(f"{SET_LOCAL}; {settings}")
                    elif settings:
                        await connection.execute(settings)
                    return await work(connection)
            except DRIVER_ERRORS as error:
                if not is_retryable(error) or attempt == MAX_TRIES - 1:
                    raise translate(error) from error
                await asyncio.sleep(_backoff(attempt))
        raise AssertionError("the loop above returns or raises")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection; the driver's errors pass through."""
        pool = self.pool()
        connection = await pool.acquire()
        try:
            yield connection
        except BaseException as error:
            self._drop_if_broken(pool, connection, error)
            raise
        finally:
            pool.release(connection)

    def _drop_if_broken(self, pool: Pool, connection: Connection, error: BaseException) -> None:
        """Close a connection in the middle of something unknown: no one else can use it.

        When the server has gone or become a standby, the idle ones are not worth a try each. A
        caller that gave up after a while, as a heartbeat does, may have waited for such a server.
        """
        given_up = isinstance(error, asyncio.CancelledError)
        if given_up or breaks_connection(error):
            connection.terminate()
        if is_of_the_server(error):
            pool.drop_idle()
            self._hosts.doubt()
        elif given_up and pool.waited(connection) >= LOOK:
            self._hosts.doubt()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Connection]:
        """Lend a connection to a task, which may leave traces on it that nobody else must meet.

        What the task raises says nothing about the connection, nor about the server.
        """
        pool = self.pool()
        async with pool.lending:
            try:
                connection = await pool.borrow()
            except DRIVER_ERRORS as error:
                raise translate(error) from error
            try:
                yield connection
            except asyncio.CancelledError:
                connection.terminate()
                raise
            finally:
                try:
                    await _cleanse(connection)
                finally:
                    pool.release(connection)

    async def close(self) -> None:
        """Close the pool of this process and event loop."""
        pool = self._pools.take()
        if pool is not None:
            await pool.close()
        await self._hosts.close()


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSING)
    except DRIVER_ERRORS:
        connection.terminate()


@asynccontextmanager
async def _in_transaction(connection: Connection) -> AsyncIterator[None]:
    """Run a block in a transaction.

    A canceled one is broken off with its connection, and so is one whose server has not answered:
    a rollback would wait for that server as long again.
    """
    transaction = transaction_on(connection)
    await transaction.start()
    try:
        yield
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) or breaks_connection(error):
            connection.terminate()
        else:
            await transaction.rollback()
        raise
    await transaction.commit()


def transaction_on(connection: Connection) -> Any:
    """Return a transaction that is to begin; see `ISOLATION`."""
    return connection.transaction(isolation="read_committed")


async def _cleanse(connection: Connection) -> None:
    """Undo what is left of a transaction, of settings and of locks, or give the connection up."""
    if connection.is_closed():
        return
    try:
        await connection.reset()
    except DRIVER_ERRORS:
        connection.terminate()
    except BaseException:
        connection.terminate()
        raise


def _backoff(attempt: int) -> float:
    return random.uniform(0.5, 1.0) * 0.01 * (1 << attempt)
