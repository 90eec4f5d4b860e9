"""Which slots of a schedule get a job now, which are given up, and which one comes next.

A slot is *missed* when it is later than the schedule's threshold; any other that has come is simply
fired. What happens with missed ones is the schedule's rule (`Misfire`). A year of seconds is never
counted through: the latest missed slots are searched from the end, and only they are told of.

Even so, ten thousand slots to catch up with take a quarter of a second. So a plan is made in steps,
one for each slot that is looked at, and whoever makes it may do something else in between.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias, TypeVar

from detent.model.calendars import Calendar, next_allowed
from detent.model.schedule import Misfire, SlotState
from detent.model.triggers import Trigger
from detent.model.zones import INSTANT

Result = TypeVar("Result")
Steps: TypeAlias = Generator[None, None, Result]

PAGE: Final = 1000
"""At most so many slots are in one plan."""
SKIPS_TOLD: Final = 10
"""Of the missed slots that get no job, the latest so many are recorded."""
SAMPLE: Final = 24
"""So many slots are walked through to see how far apart they are."""


class SlotPlan(NamedTuple):
    """What is to be written for a schedule."""

    slots: list[tuple[datetime, SlotState]]
    next_fire: datetime | None
    """The slot that comes next, after all of `slots`; None when there is none any more.

    When it is not after the `now` of the plan, the plan was full: write it and ask again with it.
    """


@dataclass(frozen=True, slots=True)
class _Line:
    """The slots of a schedule in their order."""

    trigger: Trigger
    calendars: Sequence[Calendar]
    start_at: datetime | None
    end_at: datetime | None

    def after(self, moment: datetime) -> datetime | None:
        """Return the first slot strictly after a moment."""
        if self.start_at is not None:
            moment = max(moment, self.start_at - INSTANT)
        slot = next_allowed(self.trigger, self.calendars, moment)
        return None if slot is None or self._is_over(slot) else slot

    def standing(self, slot: datetime | None) -> datetime | None:
        """Return a slot that was chosen earlier if it still counts, else the one after it.

        It is not compared with the trigger: when the rules of a zone change, a slot that was
        promised is neither lost nor moved.
        """
        if slot is None or self._is_over(slot):
            return None
        early = self.start_at is not None and slot < self.start_at
        if early or any(calendar.excludes(slot) for calendar in self.calendars):
            return self.after(slot)
        return slot

    def _is_over(self, slot: datetime) -> bool:
        return self.end_at is not None and slot > self.end_at

    def latest(self, first: datetime, before: datetime, count: int) -> Steps[list[datetime]]:
        """Return the last `count` slots from `first` on that lie before a moment."""
        walked = yield from self._walk(first, before, SAMPLE)
        if len(walked) <= SAMPLE:
            return walked[-count:]
        # Most triggers are regular: begin a little before the end.
        step = (walked[-1] - first) / SAMPLE
        span = (count + count // 4 + SAMPLE) * step
        is_far = span < before - walked[-1]
        near = self.after(before - span) if is_far else walked[-1]
        if near is not None and near < before:
            last = yield from self._walk(near, before, 4 * count + SAMPLE)
            if len(last) <= 4 * count + SAMPLE and (not is_far or len(last) >= count):
                return (last if is_far else walked[:-1] + last)[-count:]
        # Others have their slots in heaps: search them one by one from the end.
        found: list[datetime] = []
        end = before
        while len(found) < count:
            slot = yield from self._last_before(walked[-1], end, step)
            if slot == walked[-1]:
                break
            found.append(slot)
            end, step = slot, end - slot
        return [*walked, *reversed(found)][-count:]

    def _walk(self, first: datetime, before: datetime, most: int) -> Steps[list[datetime]]:
        """Return the slots from `first` on that lie before a moment, `most` and one at most."""
        walked = [first]
        while len(walked) <= most and (slot := self._before(walked[-1], before)) is not None:
            walked.append(slot)
            yield
        return walked

    def _last_before(self, low: datetime, end: datetime, step: timedelta) -> Steps[datetime]:
        """Return the last slot before `end`, knowing one, and guessing that it is a step away."""
        high = end
        while step < high - low:
            slot = self._before(high - step - INSTANT, end)
            if slot is not None:
                low = slot
                break
            high, step = high - step, 2 * step
            yield
        while (slot := self._before(low, end)) is not None:
            low = slot
            middle = low + (high - low) // 2
            slot = self._before(middle, end)
            if slot is None:
                high = middle
            else:
                low = slot
            yield
        return low

    def _before(self, moment: datetime, end: datetime) -> datetime | None:
        """Return the slot after a moment if it lies before `end`."""
        slot = self.after(moment)
        return slot if slot is not None and slot < end else None


def plan_slots(  # noqa: PLR0913 - a schedule and where it stands, each by its name
    trigger: Trigger,
    calendars: Sequence[Calendar],
    *,
    next_fire: datetime | None,
    now: datetime,
    misfire: Misfire = Misfire.FIRE_ONCE,
    catch_up_limit: int = 1,
    threshold: timedelta = timedelta(seconds=60),
    start_at: datetime | None = None,
    end_at: datetime | None = None,
    runs: int = 0,
    max_runs: int | None = None,
    limit: int = PAGE,
) -> Steps[SlotPlan]:
    """Return, in steps, what to write for a schedule whose next slot is `next_fire`, at `now`.

    Slots come in their order; those that are fired count towards `max_runs`. Of missed slots,
    `SKIP` fires none, `FIRE_ONCE` the latest, `CATCH_UP` the latest `catch_up_limit`. A plan with
    more than `limit` slots ends early; its `next_fire` has come, so the schedule is still due.
    """
    line = _Line(trigger, calendars, start_at, end_at)
    slot = line.standing(next_fire)
    left = None if max_runs is None else max_runs - runs
    if slot is None or (left is not None and left <= 0):
        return SlotPlan([], None)
    planned: list[tuple[datetime, SlotState]] = []
    if slot < now - threshold:
        kept = {Misfire.SKIP: 0, Misfire.FIRE_ONCE: 1, Misfire.CATCH_UP: catch_up_limit}[misfire]
        missed = yield from line.latest(slot, now - threshold, kept + SKIPS_TOLD)
        first_kept = len(missed) - kept
        planned = [
            (each, SlotState.FIRED if index >= first_kept else SlotState.SKIPPED_MISFIRE)
            for index, each in enumerate(missed)
        ]
        slot = line.after(missed[-1])
    while slot is not None and slot <= now and len(planned) <= limit:
        planned.append((slot, SlotState.FIRED))
        slot = line.after(slot)
        yield
    return _within(planned, slot, left, limit)


def _within(
    planned: list[tuple[datetime, SlotState]],
    following: datetime | None,
    left: int | None,
    limit: int,
) -> SlotPlan:
    """Return the part of a plan that the number of runs that are left and the page allow."""
    if left is not None:
        fired = [index for index, (_, state) in enumerate(planned) if state is SlotState.FIRED]
        if len(fired) >= left:
            planned, following = planned[: fired[left - 1] + 1], None
    if len(planned) > limit:
        planned, following = planned[:limit], planned[limit][0]
    return SlotPlan(planned, following)


def first_slot(
    trigger: Trigger,
    calendars: Sequence[Calendar],
    *,
    now: datetime,
    start_at: datetime | None = None,
    end_at: datetime | None = None,
) -> datetime | None:
    """Return where a schedule begins that is made, or changed, now: its first slot after that."""
    return _Line(trigger, calendars, start_at, end_at).after(now)


def jitter_of(name: str, slot: datetime, jitter: timedelta) -> timedelta:
    """Return how much after its slot a job is due: the same on every node, in whole milliseconds.

    It is spread evenly from nothing to `jitter`, both included, over names and slots.
    """
    most = jitter // timedelta(milliseconds=1)
    text = f"{slot.astimezone(UTC).isoformat()} {name}"
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return timedelta(milliseconds=int.from_bytes(digest, "big") % (most + 1))
