"""The rules about time: what must have happened by now, while somebody was able to do it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from detent.model.gates import is_gated
from detent.model.job import queue_of
from detent.model.rescue import is_suspect
from detent.stores.memory.nodes import ACTIVE, DEAD
from detent.stores.memory.tables import Node, Ready
from detent.testing.simulation.book import Book, lease_ended, seconds
from detent.testing.simulation.distant import DistantStore
from detent.testing.simulation.limits import is_blocked
from detent.testing.simulation.network import later
from detent.testing.simulation.process import NEVER, Process

INTERVAL: Final = 1.0
# A dead node is found this long after the end of its lease.
FOUND: Final = 2.0
# Services wait up to ten seconds after trouble with the store, before they try again.
HEALED: Final = 11.0
# A claim that has not begun this long, while another node has nothing to do, is hoarded.
BEGINS: Final = 3.0
# An idle node looks for jobs at least this often, if nobody tells it.
POLL: Final = 31.0


class Auditor:
    """Looks around every second."""

    def __init__(
        self, book: Book, store: DistantStore, slots: Mapping[str, int], *, hears: bool
    ) -> None:
        self._book = book
        self._hears = hears
        """Whether every wake-up reaches its nodes."""
        self._store = store
        self._slots = slots
        self._told: dict[UUID, None] = {}
        self._waits_since: dict[UUID, float] = {}
        self._held_since: dict[tuple[UUID, UUID], float] = {}
        """(job, node) to since when the job waits there while another node is idle."""
        self._stopped = False

    def start(self) -> None:
        """Begin to look."""
        later(INTERVAL, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True

    def _look(self) -> None:
        if self._stopped:
            return
        now = self._store.clock()
        able = self._able(now)
        self._book.able_since = min(able.values(), default=NEVER)
        self._check_leases(now)
        self._check_claims(now)
        self._check_waiting(now, able)
        self._check_held(now, able)
        self._check_forgotten(able)
        later(INTERVAL, self._look)

    def _able(self, now: datetime) -> dict[Process, float]:
        """Return the processes that can do all that a node does, and since when."""
        nodes, found = self._store.tables.nodes, dict[Process, float]()
        for process, incarnation in self._book.incarnations.items():
            row = nodes.get(incarnation)
            if row is not None and row.state == ACTIVE and row.lease_until > now:
                well = max(process.well_since, self._store.well_since) + HEALED
                since = max(well, seconds(row.started_at))
                if since < seconds(now):
                    found[process] = since
        return found

    def _check_leases(self, now: datetime) -> None:
        """A lease that has run out is noticed by those who have heard of it in time.

        They have to see the store answer for as long as a lease lasts.
        """
        seen = self._book.able_since + self._book.cluster.lease.total_seconds()
        for row in self._store.tables.nodes.values():
            ended = lease_ended(self._store.tables, row, now)
            late = row.state != DEAD and max(ended, seen) + FOUND < seconds(now)
            if late and self._book.could_help(ended):
                self._tell(row.incarnation, "a dead node is found within two seconds", row)

    def _check_claims(self, now: datetime) -> None:
        """The claims of the dead are taken from them, all of them."""
        sweep = self._book.cluster.sweep_interval.total_seconds()
        nodes = self._store.tables.nodes
        for job_id, claim in self._store.tables.running.items():
            row = nodes.get(claim.node)
            if row is None or row.dead_at is None:
                continue
            # Others only look when a lease ends; whoever was declared dead is found by a sweep.
            expired = row.lease_until <= row.dead_at
            limit = seconds(row.dead_at) + FOUND + (0.0 if expired else sweep)
            if limit < seconds(now) and self._book.could_help(seconds(row.dead_at)):
                self._tell(job_id, "all claims of the dead are rescued", row)

    def _tell(self, what: UUID, rule: str, row: Node) -> None:
        if what not in self._told:
            self._told[what] = None
            self._book.refuse(rule, f"{self._book.history.node(row.incarnation)} ({row.name})")

    def _check_waiting(self, now: datetime, able: Mapping[Process, float]) -> None:
        """A job that is due is claimed, while somebody able has room for it."""
        tables, waits = self._store.tables, self._waits_since
        rooms = {process: self._rooms(process) for process in able}
        for job_id in [job_id for job_id in waits if job_id not in tables.ready]:
            del waits[job_id]
        for job_id, place in tables.ready.items():
            queue = queue_of(place.lane)
            wanted = place.due_at <= now and not tables.queues.get(queue, False)
            wanted = wanted and not (is_gated(place.lane) and is_blocked(tables, place))
            if not wanted or not any(self._takes(room, place, queue) for room in rooms.values()):
                waits.pop(job_id, None)
            elif seconds(now) - waits.setdefault(job_id, seconds(now)) > POLL:
                waits[job_id] = float("inf")
                about = f"{self._book.history.job(job_id)} ({place.lane})"
                self._book.refuse("a due job is claimed while a node has room", about)

    def _check_held(self, now: datetime, able: Mapping[Process, float]) -> None:
        """A claim begins soon, unless no other node has anything to do with its slots."""
        if not self._hears:
            # Idle nodes know only by their next poll that a claim went back.
            return
        book, held = self._book, self._held_since
        whole = {**self._slots, "suspects": 1}
        idle = [process for process in able if self._rooms(process) == whole]
        waiting = dict[tuple[UUID, UUID], float]()
        for job_id, claim in self._store.tables.running.items():
            process = book.processes.get(claim.node)
            others = [each for each in idle if each is not process]
            begun = book.ledger.has_begun(job_id, claim.fence)
            if process is None or process not in able or not others or begun:
                continue
            since = held.get((job_id, claim.node), seconds(now))
            waiting[job_id, claim.node] = since
            if seconds(now) - since > BEGINS:
                waiting[job_id, claim.node] = float("inf")
                about = f"{book.history.job(job_id)} on {process.name}"
                book.refuse("a job waits on no busy node while another is idle", about)
        self._held_since = waiting

    def _check_forgotten(self, able: Mapping[Process, float]) -> None:
        """What runs under a claim that the store has forgotten is stopped: others may have it."""
        book = self._book
        for process in able:
            for run in book.ledger.going_on(process):
                forgotten = book.lost.claims.get((run.job, run.fence))
                if forgotten is None or run.stopped or not book.must_know(process, forgotten):
                    continue
                run.stopped = True
                about = f"{book.history.job(run.job)} fence {run.fence} on {process.name}"
                book.refuse("what runs without a claim is stopped", about)

    def _rooms(self, process: Process) -> dict[str, int]:
        """Return the free slots of each queue; none for suspects when there is one."""
        book = self._book
        incarnation = book.incarnations[process]
        rooms = {**self._slots, "suspects": 1}
        claims = {
            job_id: claim
            for job_id, claim in self._store.tables.running.items()
            if claim.node == incarnation
        }
        for claim in claims.values():
            rooms[queue_of(claim.place.lane)] -= 1
            rooms["suspects"] -= book.is_suspect(claim.place.crashes)
        for run in book.ledger.going_on(process):
            if run.job not in claims:
                rooms[run.queue] -= 1
        return rooms

    def _takes(self, room: Mapping[str, int], place: Ready, queue: str) -> bool:
        suspect = is_suspect(place.crashes, self._book.cluster.max_crashes)
        return room[queue] > 0 and (not suspect or room["suspects"] > 0)
