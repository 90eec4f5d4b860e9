"""`detent schedules show`: all that is known about one schedule, and what can be done about it."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Any, Final

import click

from detent.cli.command import example, json_option, store_options
from detent.cli.completion import complete_schedule
from detent.cli.moments import ago, iso, now
from detent.cli.output import (
    on_terminal,
    one_line,
    print_json,
    print_next,
    print_pairs,
    text,
)
from detent.cli.running import load_config
from detent.cli.schedules.listing import STYLES
from detent.cli.schedules.past import print_slots
from detent.cli.schedules.record import (
    arguments,
    found,
    full,
    length,
    misfire,
    params,
    slot_record,
    state_of,
    when,
)
from detent.cli.session import Session, with_session
from detent.config import format_duration
from detent.errors import ConfigError
from detent.model.job import Priority, needs_of
from detent.model.retry import Retry
from detent.model.schedule import Owner, ScheduleInfo, SlotInfo
from detent.options import read_options

LATEST: Final = 5
COMING: Final = 3


@click.command(
    "show",
    epilog=example("detent schedules show nightly", "detent schedules show nightly --json"),
)
@click.argument("name", shell_complete=complete_schedule)
@store_options
@json_option
def show_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Show all that is known about one schedule.

    When it fires and what, its rules, the slots to come, and what became of the latest ones.
    """

    async def look(
        session: Session,
    ) -> tuple[ScheduleInfo, Sequence[datetime], Sequence[SlotInfo]]:
        info = await found(session, name)
        try:
            slots = await session.schedules.next(name, COMING)
        except ConfigError:
            # What is wrong with it is its problem, which is shown.
            slots = []
        return info, slots, await session.schedules.history(name, limit=LATEST)

    info, coming, latest = with_session(load_config(url, schema), look)
    if as_json:
        slots = {
            "coming": [iso(slot) for slot in coming],
            "latest": [slot_record(slot) for slot in latest],
        }
        print_json(full(info) | slots)
        return
    print_pairs([(name, value) for name, value in _pairs(info, coming) if value])
    if on_terminal():
        click.echo()
        print_slots(latest)
        print_next(*_commands(info))


def _pairs(info: ScheduleInfo, coming: Sequence[datetime]) -> Iterator[tuple[str, Any]]:
    schedule = info.schedule
    state = state_of(info)
    yield "schedule", one_line(schedule.name)
    yield "state", text(state, STYLES[state]) if on_terminal() else state
    yield "problem", one_line(info.problem or "")
    yield "description", one_line(schedule.description)
    yield "when", one_line(when(schedule))
    yield "next", "\n".join(_slot(slot) for slot in coming)
    yield "last", "" if info.prev_fire is None else _slot(info.prev_fire)
    yield "runs", _runs(info)
    yield from _rules(info)
    yield from _jobs(info)
    yield "group", "" if schedule.group == "default" else one_line(schedule.group)
    yield "owner", _owner(info)
    yield "edited", ", ".join(info.edited)
    yield "revision", str(info.revision)


def _slot(slot: datetime) -> str:
    return f"{slot:%Y-%m-%d %H:%M:%S} UTC ({ago(slot, now())})"


def _runs(info: ScheduleInfo) -> str:
    most = info.schedule.max_runs
    return f"{info.runs:,}" if most is None else f"{info.runs:,} of {most:,}"


def _owner(info: ScheduleInfo) -> str:
    if info.schedule.owner is not Owner.CODE:
        return "an operator"
    if info.declared_at is None:
        return "code, which is to declare it anew"
    return f"code, declared {ago(info.declared_at, now())}"


def _rules(info: ScheduleInfo) -> Iterator[tuple[str, str]]:
    schedule = info.schedule
    yield "calendars", one_line(", ".join(schedule.calendars))
    late = length(schedule.misfire_threshold)
    yield "misfire", f"{misfire(schedule)}, for slots more than {late} late"
    yield "overlap", str(schedule.overlap)
    yield "jitter", length(schedule.jitter)
    yield "start", iso(schedule.start_at) or ""
    yield "end", iso(schedule.end_at) or ""


def _jobs(info: ScheduleInfo) -> Iterator[tuple[str, str]]:
    firing = info.schedule.firing
    yield "task", one_line(firing.task)
    yield "args", one_line(json.dumps(arguments(info.schedule), ensure_ascii=False), 300)
    yield "queue", one_line(firing.queue)
    yield "priority", Priority(firing.priority).name.lower()
    yield "needs", ", ".join(needs_of(firing.lane))
    options = None if firing.options is None else read_options(firing.options)
    if options is not None and options.timeout is not None:
        yield "timeout", f"{options.timeout:g}s"
    if options is not None and options.retry is not None:
        yield "retry", _retry(options.retry.policy())
    if firing.params is not None:
        yield "params", one_line(json.dumps(params(info.schedule), ensure_ascii=False), 300)
    yield "tags", one_line(", ".join(firing.tags))


def _retry(policy: Retry) -> str:
    waits = f"{policy.backoff} from {format_duration(policy.delay)}"
    return f"up to {policy.max_attempts} attempts, {waits} to {format_duration(policy.max_delay)}"


def _commands(info: ScheduleInfo) -> Sequence[str]:
    name = quote(info.schedule.name)
    switch = "resume" if info.paused_at is not None else "pause"
    commands = [f"detent schedules {switch} {name}", f"detent schedules trigger {name}"]
    if info.edited:
        commands.append(f"detent schedules reset {name}")
    return commands
