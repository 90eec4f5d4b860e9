"""Ends the claims of dead nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from detent.model.job import Hook
from detent.model.rescue import LostClaim, evidence, judge
from detent.model.state import State
from detent.spi.notifier import Hint, Notifier
from detent.spi.outbox import OUTBOX
from detent.spi.rescue import DeadNode, Rescue, Rescued
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.finish import after_end
from detent.stores.postgres.outbox import record_events


class Rescuing:
    """The part of the store that `RescueStore` describes."""

    database: Database
    notifier: Notifier

    async def rescue(self, limit: int, max_crashes: int) -> Rescue:
        """See `RescueStore.rescue`."""
        (look,) = await self.database.fetch("find_lost")
        if not look["found"]:
            return Rescue([], [])

        async def work(connection: Connection) -> tuple[list[Any], list[Any], list[Any]]:
            sql = self.database.sql
            nodes = await connection.fetch(sql("expire_nodes"))
            lost = await connection.fetch(sql("lost_claims"), limit, max_crashes - 1)
            if not lost:
                return nodes, [], []
            claims = [LostClaim._make(row) for row in lost]
            jobs = await connection.fetch(sql("rescue_claims"), *_columns(claims, max_crashes))
            hooked = {claim.id for claim in claims if claim.hooks}
            ended = {row["id"]: None for row in jobs if row["state"] != "pending"}
            ended = {job_id: None for job_id in ended if job_id in hooked}
            watched = [claim.id for claim in claims if claim.hooks & Hook.EVENT]
            await record_events(self.database, connection, [id_ for id_ in watched if id_ in ended])
            woken = await after_end(self.database, connection, ended) if ended else []
            return nodes, jobs, woken

        nodes, jobs, woken = await self.database.transact(work)
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
        )
        if any(row["state"] != "pending" for row in jobs):
            self.notifier.publish([Hint(OUTBOX)])
        busy = 0
        if len(jobs) < limit:
            # What is left now was locked: by a late finish, or by the transaction of a job.
            (left,) = await self.database.fetch("end_sessions")
            busy = left["busy"]
        return Rescue([DeadNode._make(row) for row in nodes], [_rescued(row) for row in jobs], busy)

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
            )
        )
    return list(zip(*rows, strict=True))


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
