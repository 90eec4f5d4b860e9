"""Giving due jobs to nodes, in the exact order, each to one."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import nsmallest
from typing import Any, Final
from uuid import UUID

from detent.model.gates import QUEUE, Gate, gate_name, is_gated
from detent.model.job import LANE_SEPARATOR, Claim, Hook, Position, queue_of
from detent.spi.limits import FamilyRequest, GatedRequest
from detent.spi.scans import Floor, LaneScan, by_queue
from detent.spi.store import ClaimRequest
from detent.stores.memory.nodes import ACTIVE
from detent.stores.memory.tables import Ready, Running, Tables

LATE: Final = timedelta(seconds=1)
"""No floor hides what became due this recently: an enqueue may commit a little late."""


def claim_jobs(tables: Tables, now: datetime, request: ClaimRequest) -> list[Claim]:
    """Move the best due jobs to running, queue by queue, under one new fence."""
    node = tables.nodes.get(request.node)
    if node is None or node.state != ACTIVE or node.lease_until <= now:
        return []
    tables.fence += 1
    claims: list[Claim] = []
    order = order_at(now, request.boost_interval)
    for scans in by_queue(request.scans):
        if _closed(tables, scans[0].queue):
            continue
        room = min(scans[0].room, request.limit - len(claims))
        due = [place for scan in scans for place in visible(tables, now, scan)]
        taken = [take(tables, now, place, request) for place in nsmallest(room, due, order)]
        claims += [claim for claim in taken if claim is not None]
    return claims


def look(tables: Tables, now: datetime, lanes: Sequence[str]) -> list[Position]:
    """Return the first due job of each lane and priority, whatever the floors."""
    first: dict[tuple[str, int], Ready] = {}
    for place in tables.ready.values():
        if place.due_at > now or place.lane not in lanes or _closed(tables, queue_of(place.lane)):
            continue
        known = first.get((place.lane, place.priority))
        if known is None or (place.due_at, place.id) < (known.due_at, known.id):
            first[place.lane, place.priority] = place
    return [
        Position(lane, priority, place.due_at, place.id)
        for (lane, priority), place in sorted(first.items())
    ]


def needy_lanes(tables: Tables, now: datetime, queues: Sequence[str]) -> list[str]:
    """Return the lanes without gates that ask for capabilities and hold jobs."""
    lanes = {place.lane: None for place in tables.ready.values()}
    return sorted(
        (
            lane
            for lane in lanes
            if LANE_SEPARATOR in lane and not is_gated(lane) and queue_of(lane) in queues
        ),
        key=str.encode,
    )


def next_due(tables: Tables, now: datetime, scans: Sequence[LaneScan]) -> dict[str, float]:
    """Return the seconds until the first job that a claim could take is due, by queue."""
    moments: dict[str, datetime] = {}
    for scan in scans:
        if _closed(tables, scan.queue):
            continue
        for place in tables.ready.values():
            if place.lane == scan.lane and not hidden(place, scan.floors[place.priority], now):
                known = moments.get(scan.queue, place.due_at)
                moments[scan.queue] = min(known, place.due_at)
    return {queue: max((at - now).total_seconds(), 0.0) for queue, at in moments.items()}


def _closed(tables: Tables, queue: str) -> bool:
    """Tell whether jobs without gates may not be claimed: a queue's own limit is a gate."""
    return tables.queues.get(queue, False) or gate_name(QUEUE, queue) in tables.limits


def load_args(tables: Tables, now: datetime, claims: Sequence[Claim]) -> Mapping[UUID, bytes]:
    """Return payloads; they never change, so this needs no fence."""
    return {claim.id: tables.job[claim.id].new.args for claim in claims if claim.id in tables.job}


def visible(tables: Tables, now: datetime, scan: LaneScan) -> list[Ready]:
    """Return the due jobs of a lane that stand above its floors."""
    return [
        place
        for place in tables.ready.values()
        if place.lane == scan.lane
        and place.due_at <= now
        and not hidden(place, scan.floors[place.priority], now)
    ]


def hidden(place: Ready, floor: Floor | None, now: datetime) -> bool:
    """Tell whether a job stands below a floor, and has been due for long enough to be hidden."""
    if floor is None or place.due_at >= now - LATE:
        return False
    return (place.due_at, place.id) < floor


def order_at(now: datetime, boost_interval: timedelta) -> Callable[[Ready], Any]:
    """Return the sort key: aged priority, highest first, then due time, then id."""

    def key(place: Ready) -> tuple[int, datetime, UUID]:
        boost = (now - place.due_at) // boost_interval if boost_interval else 0
        return -(place.priority + boost), place.due_at, place.id

    return key


def take(
    tables: Tables,
    now: datetime,
    place: Ready,
    request: ClaimRequest | GatedRequest | FamilyRequest,
    permits: tuple[Gate, ...] = (),
) -> Claim | None:
    """Move one job to running, with the permits that it holds there.

    None if the job has no row: nothing is known of it that could be run.
    """
    del tables.ready[place.id]
    tables.running[place.id] = Running(place, tables.fence, request.node, now, permits)
    if place.id not in tables.job:
        return None
    new = tables.job[place.id].new
    return Claim(
        id=place.id,
        fence=tables.fence,
        task=new.task,
        lane=place.lane,
        priority=place.priority,
        due_at=place.due_at,
        attempt=place.attempt,
        crashes=place.crashes,
        generation=place.generation,
        hooks=place.hooks | Hook.LIMIT if permits else place.hooks,
        args=new.args if len(new.args) <= request.inline_args else None,
        codec=new.codec,
        options=new.options,
        params=new.params,
        tags=new.tags,
    )
