"""Ends the claims of dead nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from detent.model.job import Hook, queue_of
from detent.model.rescue import Autopsy, Held, LostClaim, evidence, examine, judge, turn
from detent.model.state import State
from detent.spi.notifier import Hint, Notifier
from detent.spi.outbox import OUTBOX
from detent.spi.rescue import DeadNode, Orphan, Rescue, Rescued
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.finish import after_end
from detent.stores.postgres.outbox import record_events


class _Adrift(NamedTuple):
    """What a look at all claims has found."""

    nodes: Sequence[UUID]
    """Those that hold claims and do not live."""
    orphans: Sequence[UUID]
    """Claims whose job has no row."""


_NOTHING_ADRIFT: Final = _Adrift((), ())


class _Work(NamedTuple):
    """The rows of what one rescue did."""

    nodes: list[Any]
    jobs: list[Any]
    orphans: list[Any]
    woken: list[Any]


class Rescuing:
    """The part of the store that `RescueStore` describes."""

    database: Database
    notifier: Notifier

    async def rescue(self, limit: int, max_crashes: int, *, everywhere: bool = False) -> Rescue:
        """See `RescueStore.rescue`."""
        adrift = await self._adrift(limit) if everywhere else _NOTHING_ADRIFT
        (look,) = await self.database.fetch("find_lost")
        if not (look["found"] or any(adrift)):
            return Rescue([], [])

        async def work(connection: Connection) -> _Work:
            sql = self.database.sql
            nodes = await connection.fetch(sql("expire_nodes"))
            await self._examine(connection, max_crashes)
            lost = await connection.fetch(sql("lost_claims"), limit, adrift.nodes)
            claims = [_lost(row) for row in lost if row["task"] is not None]
            orphans = await self._remove_orphans(
                connection, [*adrift.orphans, *(row["id"] for row in lost if row["task"] is None)]
            )
            if not claims:
                return _Work(nodes, [], *orphans)
            jobs = await connection.fetch(sql("rescue_claims"), *_columns(claims, max_crashes))
            hooked = {claim.id for claim in claims if claim.hooks}
            ended = {row["id"]: None for row in jobs if row["state"] != "pending"}
            ended = {job_id: None for job_id in ended if job_id in hooked}
            watched = [claim.id for claim in claims if claim.hooks & Hook.EVENT]
            await record_events(self.database, connection, [id_ for id_ in watched if id_ in ended])
            woken = await after_end(self.database, connection, ended) if ended else []
            return _Work(nodes, jobs, orphans[0], [*orphans[1], *woken])

        nodes, jobs, orphans, woken = await self.database.transact(work)
        self.notifier.publish(
            [
                Hint(row["lane"], row["priority"], row["due_at"], row["id"])
                for row in jobs
                if row["state"] == "pending"
            ]
        )
        self.notifier.publish([Hint(row["lane"]) for row in woken])
        # Those that went back are announced; permits were given back by the others too.
        self.notifier.publish(
            [
                Hint(row["lane"])
                for row in jobs
                if row["state"] != "pending" and row["hooks"] & Hook.LIMIT
            ]
            + [Hint(row["lane"]) for row in orphans]
        )
        if any(row["state"] != "pending" for row in jobs):
            self.notifier.publish([Hint(OUTBOX)])
        busy = 0
        if len(jobs) + len(orphans) < limit:
            # What is left now was locked: by a late finish, or by the transaction of a job.
            (left,) = await self.database.fetch("after_rescue", adrift.nodes)
            busy = left["busy"]
        return Rescue(
            [DeadNode._make(row) for row in nodes],
            [_rescued(row) for row in jobs],
            busy,
            tuple(Orphan(row["id"], row["fence"], row["node"], row["lane"]) for row in orphans),
        )

    async def _examine(self, connection: Connection, max_crashes: int) -> None:
        """Keep what dead nodes held, before the first of their claims is ended."""
        rows = await connection.fetch(self.database.sql("unexamined_nodes"))
        if rows:
            found = _autopsies(rows, max_crashes)
            await connection.fetch(self.database.sql("save_autopsies"), *found)

    async def _adrift(self, limit: int) -> "_Adrift":
        """Read all claims for those that no node and no rescue would ever end."""
        (row,) = await self.database.fetch("find_adrift", limit)
        return _Adrift(row["nodes"], row["orphans"])

    async def _remove_orphans(
        self, connection: Connection, ids: Sequence[UUID]
    ) -> tuple[list[Any], list[Any]]:
        """Remove claims without a job; return their rows, and those of jobs that they woke."""
        if not ids:
            return [], []
        gone = await connection.fetch(self.database.sql("remove_orphans"), sorted(set(ids)))
        if not gone:
            return [], []
        ended = [row["id"] for row in gone]
        woken = await connection.fetch(self.database.sql("wake_waiting"), ended)
        return list(gone), list(woken)

    async def declare_dead(
        self, nodes: Sequence[UUID], reason: str, *, fenced: bool = False
    ) -> int:
        """See `RescueStore.declare_dead`."""
        return len(await self.database.fetch("declare_dead", list(nodes), reason, fenced))

    async def forget_nodes(self, dead_for: timedelta, limit: int) -> int:
        """See `RescueStore.forget_nodes`."""
        return len(await self.database.fetch("forget_nodes", dead_for.total_seconds(), limit))


def _columns(claims: Sequence[LostClaim], max_crashes: int) -> list[Sequence[Any]]:
    """Return the columns of the rescue statement."""
    rows = []
    for claim in claims:
        verdict = judge(claim, max_crashes)
        reason = claim.cancel_reason if verdict.state is State.CANCELED else None
        rows.append(
            (
                claim.id,
                claim.fence,
                claim.node,
                claim.task,
                claim.queue,
                verdict.state,
                verdict.crashes,
                verdict.lane,
                evidence(claim, verdict),
                reason,
                verdict.kind,
                verdict.alone,
            )
        )
    return list(zip(*rows, strict=True))


def _autopsies(rows: Sequence[Any], max_crashes: int) -> tuple[list[UUID], list[str]]:
    """Return dead nodes and what they held, in the form in which it is stored."""
    held: dict[UUID, list[Held]] = {}
    slots: dict[UUID, dict[str, int]] = {}
    for row in rows:
        node = row["incarnation"]
        place = turn(row["fence"], row["priority"], row["due_at"], row["id"])
        claim = Held(row["lane"], row["crashes"], place)
        held.setdefault(node, []).append(claim)
        if row["slots"] is not None:
            slots.setdefault(node, {})[queue_of(claim.lane)] = row["slots"]
    found = {
        node: examine(claims, slots.get(node, {}), max_crashes) for node, claims in held.items()
    }
    return list(found), [autopsy.written() for autopsy in found.values()]


def _lost(row: Any) -> LostClaim:
    autopsy = row["autopsy"]
    return LostClaim._make(row)._replace(autopsy=autopsy and Autopsy.read(autopsy))


def _rescued(row: Any) -> Rescued:
    return Rescued(
        row["id"],
        row["task"],
        row["queue"],
        row["node"],
        State(row["state"]),
        row["crashes"],
        row["attempt"],
    )
