"""Runs statements, on pools keyed by process and event loop: forks, threads and tests just work."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg

from detent.errors import ConfigError, StoreError
from detent.lazy import PerLoop
from detent.stores.postgres import pooled
from detent.stores.postgres.failures import (
    DRIVER_ERRORS,
    READ_ONLY,
    breaks_connection,
    code_of,
    is_of_the_server,
    is_retryable,
    translate,
)
from detent.stores.postgres.hosts import Hosts
from detent.stores.postgres.parameters import prepared
from detent.stores.postgres.pool import LOOK, Pool
from detent.stores.postgres.pooled import ISOLATION, PLANNER, RESTS, SET_LOCAL, learn_types
from detent.stores.postgres.statements import check_schema_name, statement
from detent.stores.postgres.unbroken import Unbroken

Connection: TypeAlias = Any  # asyncpg brings no types
Result = TypeVar("Result")

MAX_TRIES: Final = 6


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
        prepared(self.url)
        if self.pool_size < 1:
            raise ConfigError(f"[store] pool_size = {self.pool_size}: must be at least 1")


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

    async def fetch(self, name: str, *args: Any, to_its_end: bool = False) -> list[asyncpg.Record]:
        """Run one statement in a transaction of its own and return its rows.

        A caller that is canceled breaks it off, and its connection; `to_its_end` lets it go on.
        """
        sql = self.sql(name)
        for attempt in range(MAX_TRIES):
            try:
                pool = self.pool()
                connection = await pool.acquire()
                work = self._run(connection, sql, args)
                if to_its_end:
                    rows = await self._unbroken(pool, connection, work)
                else:
                    try:
                        rows = await work
                    except BaseException as error:
                        self._drop_if_broken(pool, connection, error)
                        raise
                    finally:
                        pool.release(connection)
            except DRIVER_ERRORS as error:
                if not is_retryable(error) or attempt == MAX_TRIES - 1:
                    raise self._translate(error) from error
                await asyncio.sleep(_backoff(attempt))
            else:
                return rows
        raise AssertionError("the loop above returns or raises")

    async def _unbroken(
        self, pool: Pool, connection: Connection, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Return what `work` returns; the connection comes back when it has ended."""

        def ended(error: BaseException | None) -> None:
            if error is not None:
                self._drop_if_broken(pool, connection, error)
            pool.release(connection)

        unbroken = Unbroken(work, ended)
        try:
            result = await unbroken
        except BaseException as error:
            if not unbroken.left:
                ended(error)
            raise
        pool.release(connection)
        return result

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
                    raise self._translate(error) from error
                await asyncio.sleep(_backoff(attempt))
        raise AssertionError("the loop above returns or raises")

    def _translate(self, error: BaseException) -> StoreError:
        """Return our error; of a standby that was all there is, say what the other hosts said."""
        others = self._hosts.no_primary if code_of(error) == READ_ONLY else None
        return translate(others or error)

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
