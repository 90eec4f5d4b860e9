"""The rule about the order of a queue: the most urgent is first, in whichever lane it stands."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from detent.model.job import SUSPECT, Claim, needs_of, queue_of
from detent.spi.limits import GatedRequest
from detent.spi.store import ClaimRequest
from detent.stores.memory.claim import order_at
from detent.stores.memory.tables import Ready, Tables
from detent.testing.simulation.book import Book, seconds
from detent.testing.simulation.distant import Flight
from detent.testing.simulation.limits import is_blocked
from detent.testing.simulation.process import NEVER

# What a node knows of a lane is no older than this where all wake-ups come: a gate that another
# job kept is asked again within five seconds, and a claim may be on its way.
KNOWN: Final = 7.0
# Levels that differed only a moment ago may not have been seen.
MOMENT: Final = timedelta(seconds=1)


class OrderRules:
    """Looks at what stands in the other lanes of a queue when a job of it is claimed."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._open_since: dict[UUID, float] = {}
        """Job to since when it could have been claimed, but for its priority."""
        self._passed: dict[tuple[UUID, str], dict[UUID, Ready]] = {}
        """(node, queue) to the jobs that its last claim left there for less urgent ones."""
        self.quiet_since: Callable[[], float] = lambda: NEVER
        """Since when nothing has kept nodes from hearing of jobs: NEVER while something does."""

    def claimed(
        self, flight: Flight, claims: Sequence[Claim], tables: Tables, now: datetime
    ) -> None:
        """Of the jobs that the node could have claimed, none is clearly more urgent, twice.

        A job counts that has stood there for so long that the node could know of it. One claim is
        forgiven: a node that asks the lanes of a queue together again takes what it knows of, and
        looks at the others in the same claim.
        """
        before = self._book.before
        self._look(before, now)
        known = seconds(now) - KNOWN
        quiet = self.quiet_since() < known
        waiting = [before.ready[job] for job, since in self._open_since.items() if since < known]
        queues: dict[str, list[Ready]] = {}
        for claim in claims:
            queues.setdefault(queue_of(claim.lane), []).append(before.ready[claim.id])
        for queue, taken in queues.items():
            last = self._passed.pop((flight.args[0].node, queue), {})
            passed = self._passed_over(flight.args[0], taken, waiting, tables, now) if quiet else {}
            self._passed[flight.args[0].node, queue] = passed
            again = [job_id for job_id in passed if job_id in last]
            if again:
                about = (
                    f"{self._said(passed[again[0]])} before {self._said(before.ready[again[0]])}"
                )
                self._book.refuse("a queue has one order", f"{about} on {flight.process.name}")
        self._look(tables, now)

    def _said(self, place: Ready) -> str:
        return f"{self._book.history.job(place.id)} ({place.lane}, {place.priority})"

    def _passed_over(
        self,
        request: ClaimRequest | GatedRequest,
        taken: Sequence[Ready],
        waiting: Sequence[Ready],
        tables: Tables,
        now: datetime,
    ) -> dict[UUID, Ready]:
        """Return the jobs that were left in other lanes, with what was taken instead."""
        offers, boost = tables.nodes[request.node].capabilities, request.boost_interval
        passed = {}
        for place in waiting:
            served = all(need in offers for need in needs_of(place.lane))
            if not served or place.id not in tables.ready:
                continue
            for other in taken:
                same = queue_of(place.lane) == queue_of(other.lane) and place.lane != other.lane
                if same and all(
                    _precedes(place, other, when, boost) for when in (now - MOMENT, now)
                ):
                    passed[place.id] = other
        return passed

    def _look(self, tables: Tables, now: datetime) -> None:
        """Take note of which jobs could be claimed, and since when."""
        found = {
            job_id: self._open_since.get(job_id, seconds(now))
            for job_id, place in tables.ready.items()
            if place.due_at <= now
            and not place.lane.endswith(SUSPECT)
            and not tables.queues.get(queue_of(place.lane), False)
            and not is_blocked(tables, place)
        }
        self._open_since = found


def _precedes(one: Ready, other: Ready, when: datetime, boost: timedelta) -> bool:
    """Whether a job is of a higher priority than another, as both have risen."""
    order = order_at(when, boost)
    first, second = order(one)[0], order(other)[0]
    return bool(first < second)
