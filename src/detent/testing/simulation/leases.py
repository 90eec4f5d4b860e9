"""The rules about nodes: only the dead are rescued, only a node renews its lease, none revives."""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from detent._engine.membership import TRUST
from detent.model.lease import GAP
from detent.stores.memory.nodes import DEAD
from detent.stores.memory.tables import Node, Tables
from detent.testing.simulation.book import Book, lease_ended, seconds
from detent.testing.simulation.distant import Flight

OPERATOR: Final = "operator"


class LeaseRules:
    """Looks at what the store knows of nodes."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._renewed: dict[UUID, float] = {}
        """When the last heartbeat of each incarnation was accepted."""
        self._silent: dict[UUID, None] = {}
        """Those that have stopped by themselves."""
        self.store_troubled: Callable[[float], bool] = lambda _since: False
        """Whether something was wrong with the store at some time since then."""

    def carried_out(self, flight: Flight, tables: Tables, now: datetime) -> None:
        """Look at every node's row that a statement has changed, and at whom it rescued."""
        old = self._book.before.nodes
        if flight.statement == "join":
            incarnation = flight.args[0].incarnation
            self._book.processes.setdefault(incarnation, flight.process)
            self._book.incarnations[flight.process] = incarnation
        for incarnation, row in tables.nodes.items():
            if incarnation not in old:
                self._joined(flight, row)
            elif row is not old[incarnation]:
                self._changed(flight, old[incarnation], row, now)
        for incarnation in old:
            if incarnation not in tables.nodes:
                self._left(flight, old[incarnation], tables)

    def rescued(self, flight: Flight, tables: Tables, now: datetime) -> None:
        """Look at whose claims were taken away, and how long after the end of the lease."""
        book = self._book
        for job in flight.answer.jobs:
            book.rescued += 1
            row = tables.nodes.get(job.node)
            if row is None:
                continue
            ended = lease_ended(tables, row, now)
            if row.dead_at == now and book.could_help(ended):
                book.delays.append(seconds(now) - ended)
            if row.state != DEAD:
                book.refuse("no living node is rescued", f"{book.history.job(job.id)}")

    def _joined(self, flight: Flight, row: Node) -> None:
        self._renewed[row.incarnation] = seconds(row.heartbeat_at)
        if flight.statement != "join" or flight.args[0].incarnation != row.incarnation:
            self._book.refuse("only a node itself joins", self._name(row))

    def _changed(self, flight: Flight, was: Node, row: Node, now: datetime) -> None:
        about = f"{flight.statement} {self._name(row)}"
        if was.state == DEAD and row.state != DEAD:
            self._book.refuse("the dead stay dead", about)
        if row.lease_until != was.lease_until:
            self._lease_moved(flight, was, row, now, about)
        if row.state == DEAD and was.state != DEAD:
            if flight.statement == "declare_dead":
                self._declared_dead(flight, row, about)
            else:
                self._expired(was, now, about)

    def _lease_moved(self, flight: Flight, was: Node, row: Node, now: datetime, about: str) -> None:
        said = flight.args[0] if flight.statement == "beat" else None
        if flight.statement == "join":
            said = flight.args[0].incarnation
        if said != row.incarnation:
            self._book.refuse("only a node itself renews its lease", about)
        if was.state == DEAD or row.lease_until != now + self._book.cluster.lease:
            self._book.refuse("a lease counts from the store's now", about)
        self._renewed[row.incarnation] = seconds(now)
        self._book.lost.beats.pop(row.incarnation, None)

    def _declared_dead(self, flight: Flight, row: Node, about: str) -> None:
        """Somebody said so: the node itself, or one who knows that its process has ended."""
        process = self._book.processes.get(row.incarnation)
        if flight.process.name == OPERATOR:
            self._book.slandered[row.incarnation] = None
        elif process is not flight.process and not (process is not None and process.dead):
            self._book.refuse("only who knows declares a node dead", about)

    def _expired(self, was: Node, now: datetime, about: str) -> None:
        """Its lease was over, and there was a reason why it could not renew it."""
        renewed = self._renewed.get(was.incarnation, 0.0)
        lease = self._book.cluster.lease.total_seconds()
        if seconds(now) < renewed + lease:
            self._book.refuse("no living node is rescued", about)
        self._check_outage(seconds(now), lease, about)
        self._check_cause(was.incarnation, renewed, about)
        self._check_silence(was.incarnation, renewed, about)

    def _check_outage(self, now: float, lease: float, about: str) -> None:
        """After an outage that no node can have missed, every lease has its whole length again."""
        began, ended = self._book.outage
        if ended - began > lease * GAP and now < ended + lease:
            self._book.refuse("a lease runs only while it could be renewed", about)

    def fenced(self, node: UUID, reason: str) -> None:
        """A node has stopped itself; nothing but trouble with its line or the store is a reason."""
        self._silent[node] = None
        row = self._book.before.nodes.get(node)
        if row is None or row.state == DEAD:
            return  # others were asked for a reason when they declared it dead
        about = f"{self._book.history.node(node)}: {reason}"
        lease = self._book.cluster.lease.total_seconds()
        self._check_cause(node, self._book.history.now() - lease, about)

    def drains(self, node: UUID) -> None:
        """A node ends, and will soon hold nothing any more."""
        self._silent[node] = None

    def _check_silence(self, node: UUID, renewed: float, about: str) -> None:
        """A node that was awake has stopped its work before others take it."""
        process = self._book.processes.get(node)
        if process is None or node in self._silent or not process.main.runs:
            return
        if node in self._book.lost.beats:
            return  # it counts on an answer that the store has forgotten
        going = self._book.ledger.going_on(process)
        trusted = renewed + self._book.cluster.lease.total_seconds() * TRUST
        if process.awake_since <= trusted and any(run.node == node for run in going):
            self._book.refuse("a node stops before its lease ends", about)

    def _check_cause(self, node: UUID, since: float, about: str) -> None:
        process = self._book.processes.get(node)
        if process is None or process.unheard_since(since) or self.store_troubled(since):
            return
        self._book.refuse("nobody is given up who could reach the store", about)

    def _left(self, flight: Flight, row: Node, tables: Tables) -> None:
        about = f"{flight.statement} {self._name(row)}"
        if flight.statement == "leave" and flight.args[0] != row.incarnation:
            self._book.refuse("only a node itself leaves", about)
        if any(claim.node == row.incarnation for claim in tables.running.values()):
            self._book.refuse("who holds claims stays on the list", about)

    def _name(self, row: Node) -> str:
        return f"{self._book.history.node(row.incarnation)} ({row.name})"
