"""Elects leaders, guards what they write, and keeps the reports on daemons."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from detent.errors import TermLost, WrongConnection
from detent.spi.daemons import DaemonInfo, DaemonReport
from detent.spi.leadership import Bid, Candidate, Leader, Term
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.stores.postgres.foreign import Caller, recognise, run_now
from detent.stores.postgres.sessions import LeaderSessions, election
from detent.stores.postgres.within import Within


async def hold_term(database: Database, connection: Connection, term: Term) -> None:
    """Hold a term until the end of a transaction of ours, or raise `TermLost`.

    For writes of a leader that take more than one statement; one statement joins the row itself,
    as `save_daemon.sql` does.
    """
    if not await connection.fetch(database.sql("hold_term"), term.role, term.number, term.holder):
        raise TermLost(term.role, term.number)


class Leading(Within):
    """The part of the store that `LeaderStore` and `DaemonStore` describe."""

    sessions: LeaderSessions

    async def elect(
        self, candidate: Candidate, bids: Sequence[Bid], lease: timedelta
    ) -> list[Leader]:
        """See `LeaderStore.elect`."""
        if not bids:
            return []
        bids = sorted(bids, key=lambda bid: bid.role)
        if await self._is_pooled():
            # A lock would be left with whoever gets the session next: the lease alone counts.
            never = [False] * len(bids)
            keys = [0] * len(bids)
            rows = await self.database.fetch(
                "elect_leaders",
                *election(candidate, bids, lease, keys, tried=never, held=never),
            )
        else:
            rows = await self.sessions.here().elect(candidate, bids, lease)
        return [Leader(*tuple(row)[:7]) for row in rows if row["term"] is not None]

    async def resign(self, candidate: UUID, terms: Sequence[Term]) -> list[str]:
        """See `LeaderStore.resign`."""
        given: list[str] = []
        if terms:
            terms = sorted(terms)
            roles, numbers = [term.role for term in terms], [term.number for term in terms]
            rows = await self.database.fetch("resign_leaders", candidate, roles, numbers)
            given = [row["role"] for row in rows]
        if not await self._is_pooled():
            # Only now: with the lock but without the row, others would have to wait for the lease.
            await self.sessions.here().let_go(candidate, [term.role for term in terms])
        return given

    async def leaders(self) -> list[Leader]:
        """See `LeaderStore.leaders`."""
        return [Leader(*row) for row in await self.database.fetch("list_leaders")]

    async def fence_within(self, connection: Any, term: Term) -> None:
        """See `LeaderStore.fence_within`."""
        caller = recognise(connection)
        if caller.blocking:
            raise WrongConnection(
                f"within= was given {type(connection).__qualname__}, a blocking connection, and "
                "await would stop the event loop; use the blocking form on its own thread"
            )
        await self._fence(caller, term)

    def fence_within_sync(self, connection: Any, term: Term) -> None:
        """See `LeaderStore.fence_within_sync`."""
        caller = recognise(connection)
        if not caller.blocking:
            raise WrongConnection(
                f"within= was given {type(connection).__qualname__}, a connection of an event "
                "loop; use the form that is awaited"
            )
        run_now(self._fence(caller, term))

    async def _fence(self, caller: Caller, term: Term) -> None:
        rows = await self.run_within(caller, "hold_term", term.role, term.number, term.holder)
        if not rows:
            raise TermLost(term.role, term.number)

    async def _is_pooled(self) -> bool:
        try:
            return await self.database.behind_pooler()
        except DRIVER_ERRORS as error:
            raise translate(error) from error

    async def save_daemon(self, term: Term, report: DaemonReport) -> bool:
        """See `DaemonStore.save_daemon`."""
        name, state, node_name, restarts, error = report
        rows = await self.database.fetch(
            "save_daemon",
            term.role,
            term.number,
            term.holder,
            name,
            state,
            node_name,
            restarts,
            error,
        )
        return bool(rows)

    async def daemons(self) -> list[DaemonInfo]:
        """See `DaemonStore.daemons`."""
        return [DaemonInfo._make(row) for row in await self.database.fetch("list_daemons")]
