"""Ends the claims of dead nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from detent.model.job import Hook
from detent.model.rescue import Autopsy, Held, LostClaim, evidence, examine, judge, turn
from detent.model.state import State
from detent.spi.notifier import Hint, Notifier, Wake
from detent.spi.rescue import DeadNode, Orphan, Rescue, Rescued
from detent.stores.sqlite.columns import Payloads, moment, packed, span, uuid, written
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.finish import after_end
from detent.stores.sqlite.outbox import record_events
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

TASK: Final = LostClaim._fields.index("task")


class Rescuing:
    """The part of the store that `RescueStore` describes."""

    database: Database
    notifier: Notifier

    async def rescue(self, limit: int, max_crashes: int, *, everywhere: bool = False) -> Rescue:
        """See `RescueStore.rescue`."""

        def adrift(session: Session) -> list[UUID]:
            found = session.table(sql("find_adrift"), limit) if everywhere else []
            return [uuid(job_id) for job_id in found]

        def nothing(session: Session) -> tuple[Rescue, list[Wake]] | None:
            if session.value(sql("find_lost"), session.now) or adrift(session):
                return None
            return _NOTHING, []

        def work(session: Session) -> tuple[Rescue, list[Wake]]:
            nodes = session.table(sql("expire_nodes"), session.now)
            dead = [DeadNode(uuid(node), *rest) for node, *rest in nodes]
            gone = packed(node.incarnation for node in dead)
            session.change(sql("declare_dead"), gone, "its lease ran out", session.now, False)
            _examine(session, max_crashes)
            found = session.table(sql("lost_claims"), limit)
            claims = [_lost(row) for row in found if row[TASK] is not None]
            ids = [*adrift(session), *(uuid(row[0]) for row in found if row[TASK] is None)]
            orphans, wakes = _remove_orphans(session, sorted(set(ids)))
            jobs, told = _rescue(session, claims, max_crashes)
            return Rescue(dead, jobs, orphans=tuple(orphans)), [*wakes, *told]

        rescued, wakes = await self.database.write(work, first=nothing)
        self.notifier.publish(wakes)
        return rescued

    async def declare_dead(
        self, nodes: Sequence[UUID], reason: str, *, fenced: bool = False
    ) -> int:
        """See `RescueStore.declare_dead`."""
        return await self.database.write(
            lambda session: session.change(
                sql("declare_dead"), packed(nodes), reason, session.now, fenced
            )
        )

    async def forget_nodes(self, dead_for: timedelta, limit: int) -> int:
        """See `RescueStore.forget_nodes`."""
        return await self.database.write(
            lambda session: session.change(sql("forget_nodes"), session.now - span(dead_for), limit)
        )


_NOTHING = Rescue([], [])


def _remove_orphans(session: Session, ids: Sequence[UUID]) -> tuple[list[Orphan], list[Wake]]:
    """Remove claims without a job; return what they were, and who has to be told."""
    if not ids:
        return [], []
    gone = packed(ids)
    orphans = [
        Orphan(uuid(job_id), fence, uuid(node), lane)
        for job_id, fence, node, lane in session.table(sql("remove_orphans", "found"), gone)
    ]
    for step in ("gone", "unsignaled", "unprogressed", "unkeyed"):
        session.change(sql("remove_orphans", step), gone)
    woken = after_end(session, dict.fromkeys(ids))
    return orphans, [*(Hint(each.lane) for each in orphans), *(Hint(lane) for (lane,) in woken)]


def _examine(session: Session, max_crashes: int) -> None:
    """Keep what dead nodes held, before the first of their claims is ended."""
    rows = session.table(sql("unexamined_nodes", "claims"))
    if not rows:
        return
    scaled = dict(session.table(sql("unexamined_nodes", "scaled")))
    held: dict[str, list[Held]] = {}
    slots: dict[str, dict[str, int]] = {}
    for node, queues, lane, crashes, fence, priority, due_at, job_id in rows:
        place = turn(fence, priority, moment(due_at), uuid(job_id))
        held.setdefault(node, []).append(Held(lane, crashes, place))
        slots[node] = {**queues, **scaled}
    for node, claims in held.items():
        autopsy = examine(claims, slots[node], max_crashes).written()
        session.change(sql("save_autopsies"), uuid(node).bytes, autopsy)


def _rescue(
    session: Session, claims: Sequence[LostClaim], max_crashes: int
) -> tuple[list[Rescued], list[Wake]]:
    """End these claims; return what became of the jobs, and who has to be told."""
    if not claims:
        return [], []
    payloads = Payloads()
    ends = written([_fields(claim, max_crashes, payloads) for claim in claims])
    ids = packed(claim.id for claim in claims)
    session.change(sql("rescue_claims", "said"), ids, ends, payloads.blob())
    session.change(sql("settle_jobs", "held"))
    session.change(sql("settle_jobs", "gone"))
    session.change(sql("rescue_claims", "outcome"), session.now)
    session.change(sql("settle_jobs", "ready"), session.now)
    session.change(sql("rescue_claims", "tried"), session.now)
    session.change(sql("settle_jobs", "unsignaled"))
    session.change(sql("settle_jobs", "unprogressed"))
    rows = session.table(sql("rescue_claims", "rescued"))
    session.change(sql("settle_jobs", "clear"))
    hooked = {claim.id for claim in claims if claim.hooks}
    ended = {uuid(row[0]): None for row in rows if row[4] != "pending"}
    ended = {job_id: None for job_id in ended if job_id in hooked}
    watched = [(claim.id, claim.hooks) for claim in claims if claim.id in ended]
    told = record_events(session, watched)
    woken = after_end(session, ended) if ended else []
    wakes: list[Wake] = [
        Hint(lane, priority, moment(due_at), uuid(job_id))
        for job_id, *_, state, _, _, lane, priority, due_at in rows
        if state == "pending"
    ]
    wakes += [*(Hint(lane) for (lane,) in woken), *told]
    # Those that went back are announced; permits were given back by the others too.
    wakes += [
        Hint(claim.lane) for claim in claims if claim.id in ended and claim.hooks & Hook.LIMIT
    ]
    return [_rescued(row) for row in rows], wakes


def _fields(claim: LostClaim, max_crashes: int, payloads: Payloads) -> tuple[Any, ...]:
    verdict = judge(claim, max_crashes)
    return (
        claim.fence,
        claim.task,
        claim.queue,
        str(verdict.state),
        verdict.crashes,
        verdict.lane,
        claim.cancel_reason if verdict.state is State.CANCELED else None,
        *payloads.add(evidence(claim, verdict)),
        verdict.kind,
        verdict.alone,
    )


def _lost(row: Sequence[Any]) -> LostClaim:
    values = dict(zip(LostClaim._fields, row, strict=True))
    values |= {"id": uuid(values["id"]), "node": uuid(values["node"])}
    values |= {name: bool(values[name]) for name in ("cancel_requested", "fenced")}
    values["autopsy"] = values["autopsy"] and Autopsy.read(values["autopsy"])
    values |= {name: moment(values[name]) for name in ("claimed_at", "due_at")}
    return LostClaim(**values)


def _rescued(row: Sequence[Any]) -> Rescued:
    job_id, task, queue, node, state, crashes, attempt, *_ = row
    return Rescued(uuid(job_id), task, queue, uuid(node), State(state), crashes, attempt)
