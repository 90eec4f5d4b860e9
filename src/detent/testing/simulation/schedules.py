"""The rules about schedules: each slot has one job, none is left out, and none comes twice."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from detent.model.schedule import Overlap, SlotState
from detent.options import read_options
from detent.stores.memory.tables import Job, Scheduled, Tables
from detent.testing.simulation.book import Book
from detent.testing.simulation.distant import Flight

Slot = tuple[str, datetime]


class ScheduleRules:
    """Looks at what the store does with slots, and believes nobody else about them."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._jobs: dict[Slot, UUID] = {}
        """Slot to its job, as the jobs themselves tell it."""
        self._slots: dict[UUID, Slot] = {}
        self._known = 0
        self.every: dict[str, timedelta] = {}
        """Schedule to the time between two of its slots."""
        self.fired = 0

    def carried_out(self, flight: Flight, tables: Tables, changed: Sequence[str]) -> None:
        """Look at what a statement has changed in some tables."""
        if "running" in changed:
            self._check_overlap(tables)
        if "schedules" in changed or "schedule_slots" in changed:
            self._look(flight, tables)

    def _look(self, flight: Flight, tables: Tables) -> None:
        """Look at all that a firing has changed."""
        self._count_jobs(flight, tables)
        before = self._book.before
        for key, row in before.schedule_slots.items():
            if tables.schedule_slots.get(key) != row:
                self._book.refuse("a slot is written once", _said(key))
        for key, row in tables.schedule_slots.items():
            if key not in before.schedule_slots:
                self._written(key, row.state, row.job, tables)
        for name, scheduled in tables.schedules.items():
            old = before.schedules.get(name)
            if old is not None and old != scheduled and flight.statement == "fire":
                self._moved_on(name, old, scheduled, tables)

    def _count_jobs(self, flight: Flight, tables: Tables) -> None:
        """Find the slots of the jobs that were stored since the last look."""
        jobs = list(tables.job.values())
        for job in jobs[self._known :]:
            slot = _slot_of(job)
            if slot is None:
                continue
            if slot in self._jobs:
                self._book.refuse("each slot has one job", f"{flight.statement} {_said(slot)}")
            self._jobs[slot] = job.new.id
            self._slots[job.new.id] = slot
        self._known = len(jobs)

    def _written(self, key: Slot, state: SlotState, job: UUID | None, tables: Tables) -> None:
        if (state is SlotState.FIRED) != (job is not None):
            self._book.refuse("who fires has a job", f"{_said(key)}: {state}")
        if job is not None and (job not in tables.job or self._jobs.get(key) != job):
            self._book.refuse("slot and job are written together", _said(key))
        self.fired += job is not None

    def _moved_on(self, name: str, old: Scheduled, new: Scheduled, tables: Tables) -> None:
        """Every slot between the old place of a schedule and the new one is accounted for."""
        slot, ends = old.info.next_fire, new.info.next_fire
        if new.info.problem is not None or slot is None:
            return
        if ends is not None and ends <= slot:
            self._book.refuse("a firing moves its schedule on", name)
        runs = new.info.schedule.max_runs
        if ends is None and (runs is None or new.info.runs < runs):
            self._book.refuse("a schedule goes on until its end", name)
        while ends is not None and slot < ends:
            if (name, slot) not in tables.schedule_slots:
                self._book.refuse("no slot is left out", _said((name, slot)))
            slot += self.every[name]

    def _check_overlap(self, tables: Tables) -> None:
        """Of a schedule whose jobs must not overlap, one has a valid claim at a time."""
        running: dict[str, int] = {}
        for job_id, claim in tables.running.items():
            slot = self._slots.get(job_id)
            # An operator may give an ended job another life, and then he wants it so.
            if slot is not None and claim.place.generation == 1:
                running[slot[0]] = running.get(slot[0], 0) + 1
        for name, count in running.items():
            row = tables.schedules.get(name)
            if count > 1 and row is not None and row.info.schedule.overlap is not Overlap.ALLOW:
                self._book.refuse("jobs of a schedule do not overlap", f"{name}: {count} run")

    def check_end(self, tables: Tables) -> None:
        """Every slot up to where a schedule stands has been written, each job has its slot."""
        for job_id, key in self._slots.items():
            row = tables.schedule_slots.get(key)
            if row is None or row.job != job_id:
                self._book.refuse("each slot has one job", f"{_said(key)} at the end")


def _slot_of(job: Job) -> Slot | None:
    if job.new.options is None:
        return None
    options = read_options(job.new.options)
    if options.schedule is None or options.slot is None:
        return None
    return options.schedule, options.slot


def _said(key: Slot) -> str:
    return f"{key[0]} at {key[1].isoformat()}"
