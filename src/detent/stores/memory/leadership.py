"""Electing leaders, with the meaning that every other store must have."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from detent.errors import TermLost
from detent.model.numbers import EPOCH, next_term
from detent.spi.daemons import DaemonInfo, DaemonReport
from detent.spi.leadership import Bid, Candidate, Leader, Term
from detent.stores.memory.nodes import DEAD
from detent.stores.memory.tables import Daemon, Leadership, Tables

STOPPED = "stopped"


def elect(
    tables: Tables, now: datetime, candidate: Candidate, bids: Sequence[Bid], lease: timedelta
) -> list[Leader]:
    """Take what is free, keep what is held, and say who leads."""
    alive = not _is_dead(tables, candidate.id)
    if alive:
        for bid in bids:
            _bid(tables, now, candidate, bid, lease)
    known = [Leader(*tables.leaders[bid.role]) for bid in bids if bid.role in tables.leaders]
    return [leader for leader in known if alive or leader.holder != candidate.id]


def _bid(tables: Tables, now: datetime, candidate: Candidate, bid: Bid, lease: timedelta) -> None:
    row = tables.leaders.get(bid.role)
    if row is not None and (row.node, row.term) == (candidate.id, bid.term):
        tables.leaders[bid.role] = row._replace(lease_until=now + lease)
    elif row is None or row.node == candidate.id or not _is_led(tables, now, row):
        tables.leaders[bid.role] = Leadership(
            role=bid.role,
            term=next_term(0 if row is None else row.term, tables.fence // EPOCH * EPOCH),
            node=candidate.id,
            name=candidate.name,
            since=now,
            lease_until=now + lease,
        )


def _is_led(tables: Tables, now: datetime, row: Leadership) -> bool:
    return row.node is not None and row.lease_until > now and not _is_dead(tables, row.node)


def _is_dead(tables: Tables, node: UUID) -> bool:
    found = tables.nodes.get(node)
    return found is not None and found.state == DEAD


def resign(tables: Tables, now: datetime, candidate: UUID, terms: Sequence[Term]) -> list[str]:
    """Give up valid terms."""
    valid = [term for term in terms if is_valid(tables, term)]
    for term in valid:
        row = tables.leaders[term.role]
        tables.leaders[term.role] = row._replace(node=None, name=None, lease_until=now)
    return [term.role for term in valid]


def leaders(tables: Tables, now: datetime) -> list[Leader]:
    """Return who leads, by role."""
    return [Leader(*row) for row in sorted(tables.leaders.values()) if _is_led(tables, now, row)]


def may_write(tables: Tables, term: Term | None) -> bool:
    """Whether a chore may be done: by anybody without a term, and by a leader under a valid one."""
    return term is None or is_valid(tables, term)


def is_valid(tables: Tables, term: Term) -> bool:
    """Whether a term is that of the present leader: what every write of a leader asks."""
    row = tables.leaders.get(term.role)
    return row is not None and (row.term, row.node) == (term.number, term.holder)


def check_term(tables: Tables, now: datetime, term: Term) -> None:
    """Refuse a term that is over."""
    if not is_valid(tables, term):
        raise TermLost(term.role, term.number)


def save_daemon(tables: Tables, now: datetime, term: Term, report: DaemonReport) -> bool:
    """Keep a report, under a valid term."""
    if not is_valid(tables, term):
        return False
    known = tables.daemons.get(report.name)
    last_error = known.last_error if known is not None else None
    failed_at = known.failed_at if known is not None else None
    tables.daemons[report.name] = Daemon(
        name=report.name,
        state=report.state,
        node=term.holder,
        node_name=report.node_name,
        term=term.number,
        since=now,
        restarts=report.restarts,
        last_error=last_error if report.error is None else report.error,
        failed_at=failed_at if report.error is None else now,
    )
    return True


def daemons(tables: Tables, now: datetime) -> list[DaemonInfo]:
    """Return all reports, by name; one whose node no longer leads tells of the past."""
    found = []
    for row in sorted(tables.daemons.values()):
        leader = tables.leaders.get(f"daemon:{row.name}")
        led = leader is not None and _is_led(tables, now, leader)
        mine = led and leader is not None and (leader.node, leader.term) == (row.node, row.term)
        found.append(DaemonInfo(*row)._replace(state=row.state if mine else STOPPED))
    return found
