"""Fires schedules: looks what is due, plans its slots, and has the store write them.

Any node with the role may do it, all of them at once too: a plan counts only if its schedule is
still as the node has seen it, and whoever comes second writes nothing. So there is no leader to
wait for, and a node that dies half-way leaves the slot to the next one that looks.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from detent._engine.announce import Announcer
from detent._engine.seal import Seal, sealed_plans
from detent._engine.service import Service
from detent.config import SchedulesConfig
from detent.errors import SchemaMismatch, StoreError, StoreUnavailable
from detent.events import Bus, ScheduleFired, ScheduleTrouble, SlotsSkipped
from detent.firings import fired_job
from detent.model.firing import SlotPlan, Steps, jitter_of, plan_slots
from detent.model.schedule import FiredSlot, FirePlan, PlannedSlot, ScheduleInfo, SlotState
from detent.model.triggers import Trigger, trigger_from
from detent.slots import UNREADABLE, KnownCalendars, calendars_in, calendars_of
from detent.spi.notifier import Hint, ScheduleHint, Wake
from detent.spi.runtime import Runtime
from detent.spi.schedules import ScheduleStore
from detent.tasks import Registry

PAGE: Final = 500
# After so many steps of planning, some 3 ms, others on the node's loop have their turn. A step
# may be a long one where calendars leave out much, so after so long, in seconds, they have it too.
STEPS: Final = 200
LONGEST_TURN: Final = 0.01
# How many slots one call writes at most, and how many of them for one schedule: one that has
# much to catch up with must not keep the others waiting.
SLOTS: Final = 2_000
SLOTS_EACH: Final = 250
# Nodes that wait for the same slot come one after the other, a little.
SPREAD: Final = 0.02
# Who found others at work comes back after so long, in seconds.
BACK_OFF: Final = (0.02, 0.1)
# After so long without being fired, a schedule of a task that is unknown here is known nowhere.
STRANDED: Final = timedelta(minutes=2)
STRANDED_LOOK: Final = 60.0
# Of how many schedules a node remembers which trouble it has told.
REMEMBERED: Final = 10_000


class Firer(Service):
    """Fires what is due, and sleeps until the next slot."""

    name = "firer"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: ScheduleStore,
        registry: Registry,
        config: SchedulesConfig,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._registry = registry
        self._poll = config.poll_interval.total_seconds()
        self._due_at: float | None = None
        """When something is due, by our own clock; None when that has to be asked."""
        self._looked_at = runtime.monotonic()
        self._told: dict[str, str] = {}
        self._steps = 0
        """How many steps of planning were made since others had their turn."""
        self._turn_began_at = 0.0
        self.node_id: UUID | None = None
        self.may_flag: Callable[[], bool] = lambda: True
        """One node is enough to look for schedules that nobody fires."""
        self.on_fired: Callable[[Sequence[Wake]], None] = lambda _wakes: None
        self.announcer: Announcer | None = None
        self.seal: Seal | None = None
        """What encrypts the jobs of tasks that are encrypted; without their key they wait."""

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier: a schedule was changed, or some may have been missed."""
        if not wakes or any(isinstance(wake, ScheduleHint) for wake in wakes):
            self._due_at = None
            self.wake()

    def on_trouble(self, error: Exception) -> None:
        """Ask anew: what was known may be wrong by now."""
        self._due_at = None

    async def run_once(self) -> float:
        """Fire a page, or find out when to."""
        tasks = [task.name for task in self._registry]
        if self.node_id is None or not tasks:
            return self.unasked(self._rest())
        known = self._due_at is not None and self._due_at <= self.runtime.monotonic()
        if not known and (wait := await self._ask(tasks)) > 0:
            return wait
        self._due_at = None
        found = await self._store.due_schedules(tasks, PAGE)
        if not found.due:
            return await self._ask(tasks)
        plans = await self._plans(found.due, found.now)
        if self.seal is not None:
            plans = await self._sealed(plans, found.due, self.seal)
        fired = await self._fire(plans)
        self._tell(fired, plans, found.now)
        if not fired and any(plan.slots for plan in plans):
            return self.runtime.uniform(*BACK_OFF)
        if len(found.due) == PAGE or len(plans) < len(found.due) or _is_due(plans, found.now):
            return 0.0
        return await self._ask(tasks)

    def _rest(self) -> float:
        return self._poll * self.runtime.uniform(0.8, 1.0)

    async def _ask(self, tasks: Sequence[str]) -> float:
        """Return how long to wait; 0 when something is due."""
        now = self.runtime.monotonic()
        if now - self._looked_at >= STRANDED_LOOK and self.may_flag():
            self._looked_at = now
            await self._flag_stranded(tasks)
        wait = await self._store.next_fire(tasks)
        rest = self._rest()
        if wait is None or wait > rest:
            self._due_at = None
            return rest
        if wait > 0:
            wait += self.runtime.uniform(0.0, SPREAD)
            self._due_at = self.runtime.monotonic() + wait
        return wait

    # Planning

    async def _plans(self, due: Sequence[ScheduleInfo], now: datetime) -> list[FirePlan]:
        """Plan as many as fit into one call; the others stay due."""
        known: KnownCalendars = {}
        if any(info.schedule.calendars for info in due):
            known = await calendars_in(self._store)
        plans: list[FirePlan] = []
        left = SLOTS
        self._turn_began_at = self.runtime.monotonic()
        for info in due:
            if left <= 0:
                break
            plan = await self._plan(info, known, now, min(left, SLOTS_EACH))
            left -= len(plan.slots)
            plans.append(plan)
            await self._give_way(1 + len(plan.slots))
        return plans

    async def _give_way(self, steps: int = 1) -> None:
        """Let others have their turn, if this one has lasted long enough."""
        self._steps += steps
        lasted = self.runtime.monotonic() - self._turn_began_at
        if self._steps >= STEPS or lasted >= LONGEST_TURN:
            self._steps = 0
            await self.runtime.sleep(0)
            self._turn_began_at = self.runtime.monotonic()

    async def _in_steps(self, planning: Steps[SlotPlan]) -> SlotPlan:
        """Make a plan to its end."""
        while True:
            try:
                next(planning)
            except StopIteration as end:
                plan: SlotPlan = end.value
                return plan
            await self._give_way()

    async def _plan(
        self, info: ScheduleInfo, known: KnownCalendars, now: datetime, limit: int
    ) -> FirePlan:
        """Plan one; what cannot be planned is flagged, and is in nobody's way."""
        schedule = info.schedule
        try:
            planning = plan_slots(
                _trigger(schedule.name, schedule.trigger),
                calendars_of(schedule.calendars, known),
                next_fire=info.next_fire,
                now=now,
                misfire=schedule.misfire,
                catch_up_limit=schedule.catch_up_limit,
                threshold=schedule.misfire_threshold,
                start_at=schedule.start_at,
                end_at=schedule.end_at,
                runs=info.runs,
                max_runs=schedule.max_runs,
                limit=limit,
            )
            planned = await self._in_steps(planning)
            slots = [self._slot(info, slot, state) for slot, state in planned.slots]
        except UNREADABLE as error:
            return _problem(info, f"{error}" or type(error).__name__)
        return FirePlan(schedule.name, info.revision, slots, schedule.overlap, planned.next_fire)

    def _slot(self, info: ScheduleInfo, slot: datetime, state: SlotState) -> PlannedSlot:
        schedule = info.schedule
        if state is not SlotState.FIRED:
            return PlannedSlot(slot, state, None)
        # Its place in the queue is that of its slot, however late it is fired.
        due_at = slot
        if schedule.jitter:
            due_at += jitter_of(schedule.name, slot, schedule.jitter)
        job = fired_job(
            schedule, slot, self.runtime.new_id(), overlap=schedule.overlap, due_at=due_at
        )
        return PlannedSlot(slot, state, job)

    async def _sealed(
        self, plans: Sequence[FirePlan], due: Sequence[ScheduleInfo], seal: Seal
    ) -> list[FirePlan]:
        """Return plans whose jobs can be stored; those without their key are flagged, and wait."""
        sealed, problems = await sealed_plans(plans, seal)
        infos = {info.schedule.name: info for info in due} if problems else {}
        return sealed + [_problem(infos[name], problem) for name, problem in problems.items()]

    # Firing

    async def _fire(self, plans: Sequence[FirePlan]) -> list[FiredSlot]:
        """Have the store write plans; one that it refuses does not keep the others."""
        try:
            return await self._store.fire(plans)
        except (StoreUnavailable, SchemaMismatch):
            raise
        except StoreError as error:
            if len(plans) == 1:
                return await self._give_up(plans[0], str(error))
        middle = len(plans) // 2
        return [*await self._fire(plans[:middle]), *await self._fire(plans[middle:])]

    async def _give_up(self, plan: FirePlan, problem: str) -> list[FiredSlot]:
        """Flag a schedule whose slots cannot be written."""
        self._trouble(plan.name, problem)
        if plan.problem is None and plan.slots:
            first = min(each.slot for each in plan.slots)
            flag = FirePlan(plan.name, plan.revision, (), plan.overlap, first, problem)
            try:
                await self._store.fire([flag])
            except StoreUnavailable:
                raise
            except StoreError:
                return []  # not even that can be written; it was told, and the others go on
        return []

    async def _flag_stranded(self, tasks: Sequence[str]) -> None:
        """Flag schedules whose task no node seems to know; they fire when one does."""
        late = await self._store.stranded_schedules(tasks, STRANDED, PAGE)
        flags = []
        for info in late:
            task = info.schedule.firing.task
            problem = f"no node fires it: does one with the role scheduler know the task {task!r}?"
            flags.append(_problem(info, problem))
            self._trouble(info.schedule.name, problem)
        if flags:
            await self._store.fire(flags)

    # Telling

    def _tell(self, fired: Sequence[FiredSlot], plans: Sequence[FirePlan], now: datetime) -> None:
        skipped: dict[tuple[str, SlotState], list[datetime]] = {}
        for each in fired:
            if each.job is None:
                skipped.setdefault((each.schedule, each.state), []).append(each.slot)
                continue
            late = (now - each.slot).total_seconds()
            self.bus.emit(ScheduleFired(each.schedule, each.slot, each.job, self.node_id, late))
        for (name, state), slots in skipped.items():
            reason = "overlap" if state is SlotState.SKIPPED_OVERLAP else "misfire"
            self.bus.emit(SlotsSkipped(name, len(slots), min(slots), max(slots), reason))
        for plan in plans:
            if plan.problem is not None:
                self._trouble(plan.name, plan.problem)
            else:
                self._told.pop(plan.name, None)
        written = {each.job for each in fired}
        jobs = [slot.job for plan in plans for slot in plan.slots if slot.job is not None]
        stored = [job for job in jobs if job.id in written]
        if self.announcer is not None:
            self.announcer.enqueued(stored)
        hints = [Hint(job.lane, job.priority, job.due_at, job.id) for job in stored]
        if hints:
            self.on_fired(hints)

    def _trouble(self, name: str, problem: str) -> None:
        """Tell of a problem once, until it is another or the schedule has fired."""
        if self._told.get(name) == problem:
            return
        if len(self._told) >= REMEMBERED:
            self._told.clear()
        self._told[name] = problem
        self.bus.emit(ScheduleTrouble(name, problem))


def _problem(info: ScheduleInfo, problem: str) -> FirePlan:
    schedule = info.schedule
    return FirePlan(schedule.name, info.revision, (), schedule.overlap, info.next_fire, problem)


def _is_due(plans: Sequence[FirePlan], now: datetime) -> bool:
    """Tell whether one of the plans was full, so that its schedule is due again at once."""
    return any(
        plan.problem is None and plan.next_fire is not None and plan.next_fire <= now
        for plan in plans
    )


@lru_cache(maxsize=10_000)
def _trigger(name: str, data: bytes) -> Trigger:
    """Return a trigger as the schedule of that name fires it; reading one takes a while."""
    return _stored(data).for_schedule(name)


@lru_cache(maxsize=1_000)
def _stored(data: bytes) -> Trigger:
    return trigger_from(data)
