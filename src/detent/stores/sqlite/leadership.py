"""Elects leaders, guards what they write, and keeps the reports on daemons."""

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from detent.errors import TermLost
from detent.model.numbers import next_term
from detent.spi.daemons import DaemonInfo, DaemonReport
from detent.spi.leadership import Bid, Candidate, Leader, Term
from detent.stores.sqlite.columns import moment, moment_or_none, span, uuid
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql
from detent.stores.sqlite.within import Within


class Leading(Within):
    """The part of the store that `LeaderStore` and `DaemonStore` describe."""

    async def elect(
        self, candidate: Candidate, bids: Sequence[Bid], lease: timedelta
    ) -> list[Leader]:
        """See `LeaderStore.elect`."""
        election = _Election(candidate, bids, lease)
        return await self.database.write(election.hold, first=election.nothing_to_win, urgent=True)

    async def resign(self, candidate: UUID, terms: Sequence[Term]) -> list[str]:
        """See `LeaderStore.resign`."""

        def work(session: Session) -> list[str]:
            return [
                term.role
                for term in terms
                if session.change(
                    sql("resign_leaders"), term.role, term.number, candidate.bytes, session.now
                )
            ]

        return await self.database.write(work) if terms else []

    async def leaders(self) -> list[Leader]:
        """See `LeaderStore.leaders`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("list_leaders"), session.now)
        )
        return [
            Leader(role, term, UUID(bytes=node), name, moment(since), moment(until))
            for role, term, node, name, since, until in rows
        ]

    async def fence_within(self, connection: Any, term: Term) -> None:
        """See `LeaderStore.fence_within`: for what `ctx.transaction()` gives."""
        await self.run_within(connection, lambda session: _check(session, term))

    def fence_within_sync(self, connection: Any, term: Term) -> None:
        """See `LeaderStore.fence_within_sync`."""

        def work(session: Session) -> None:
            _begin(session.connection)
            _check(session, term)

        self.run_within_sync(connection, work)

    async def save_daemon(self, term: Term, report: DaemonReport) -> bool:
        """See `DaemonStore.save_daemon`."""
        mine = (term.role, term.number, term.holder.bytes)
        saved = await self.database.write(
            lambda session: session.change(sql("save_daemon"), *mine, *report, session.now)
        )
        return bool(saved)

    async def daemons(self) -> list[DaemonInfo]:
        """See `DaemonStore.daemons`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("list_daemons"), session.now)
        )
        return [_daemon_info(row) for row in rows]


class _Known(NamedTuple):
    """A role's row."""

    leader: Leader
    led: bool
    """Whether its leader still leads."""


class _Election:
    """One candidate's bids."""

    def __init__(self, candidate: Candidate, bids: Sequence[Bid], lease: timedelta) -> None:
        self._candidate = candidate
        self._bids = bids
        self._lease = span(lease)

    def nothing_to_win(self, session: Session) -> list[Leader] | None:
        """Return who leads when nothing would change; nearly always others lead, and well."""
        known = [_known(session, bid.role) for bid in self._bids]
        alive = self._is_alive(session)
        if alive and any(map(self._changes, self._bids, known)):
            return None
        return self._told(known, alive)

    def hold(self, session: Session) -> list[Leader]:
        """Take what is free, keep what is held, and say who leads."""
        alive = self._is_alive(session)
        if alive:
            for bid in self._bids:
                self._bid(session, bid)
        return self._told([_known(session, bid.role) for bid in self._bids], alive)

    def _told(self, known: Sequence[_Known | None], alive: bool) -> list[Leader]:
        """Return who leads; a candidate that was declared dead leads nothing."""
        leaders = [each.leader for each in known if each is not None]
        return [each for each in leaders if alive or each.holder != self._candidate.id]

    def _is_alive(self, session: Session) -> bool:
        return bool(session.value(sql("elect_leaders", "alive"), self._candidate.id.bytes))

    def _changes(self, bid: Bid, known: _Known | None) -> bool:
        """Whether a bid renews a lease or wins a role."""
        return known is None or not known.led or known.leader.holder == self._candidate.id

    def _bid(self, session: Session, bid: Bid) -> None:
        known = _known(session, bid.role)
        if not self._changes(bid, known):
            return
        until = session.now + self._lease
        mine = (bid.term, self._candidate.id)
        if known is not None and (known.leader.term, known.leader.holder) == mine:
            session.change(sql("elect_leaders", "kept"), bid.role, until)
        else:
            who = (self._candidate.id.bytes, self._candidate.name)
            last = 0 if known is None else known.leader.term
            term = next_term(last, session.value(sql("elect_leaders", "epoch")))
            session.change(sql("elect_leaders", "taken"), bid.role, *who, session.now, until, term)


def _known(session: Session, role: str) -> _Known | None:
    rows = session.table(sql("elect_leaders", "known"), role, session.now)
    if not rows:
        return None
    role, term, node, name, since, until, led = rows[0]
    holder = uuid(node) if node else None
    return _Known(Leader(role, term, holder, name, moment(since), moment(until)), bool(led))


def _check(session: Session, term: Term) -> None:
    """Refuse a term that is over; a transaction that got past this commits under it, or fails."""
    if not session.value(sql("hold_term"), term.role, term.number, term.holder.bytes):
        raise TermLost(term.role, term.number)


def _begin(connection: sqlite3.Connection) -> None:
    """Begin the caller's transaction: his driver would only do so before a write."""
    if not connection.in_transaction:
        connection.execute("BEGIN").close()


def _daemon_info(row: Any) -> DaemonInfo:
    values = dict(zip(row.keys(), row, strict=True))
    values["node"] = UUID(bytes=row["node"])
    for name in ("since", "failed_at"):
        values[name] = moment_or_none(row[name])
    return DaemonInfo(**values)
