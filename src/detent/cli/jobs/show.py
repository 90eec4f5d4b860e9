"""`detent jobs show`: all that is known about one job, and what can be done about it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import click

from detent.cli.command import example, json_option, reading, store_options
from detent.cli.jobs.record import REASONS, attempt_record, full, log_record, said
from detent.cli.jobs.selection import read_id
from detent.cli.moments import ago, iso, local, now, span
from detent.cli.output import (
    REPLACEMENT,
    on_terminal,
    one_line,
    print_json,
    print_next,
    print_pairs,
    state_text,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.model.job import Attempt, JobInfo, LogEntry, Priority
from detent.model.payloads import decoded
from detent.model.state import TERMINAL, State, Verb, verbs
from detent.spi.nodes import NodeInfo
from detent.spi.store import QueueInfo

SHORT: Final = 300
LOG_LINES: Final = 20
ALL_LOG_LINES: Final = 100_000
BAR: Final = 20
COMMANDS: Final = (Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.RETRY)


@dataclass(frozen=True, slots=True)
class Found:
    """A job, and what stands around it."""

    job: JobInfo
    attempts: Sequence[Attempt]
    log: Sequence[LogEntry]
    nodes: Sequence[NodeInfo]
    queue: QueueInfo | None
    may_be_limited: bool = False

    def node_name(self, incarnation: UUID | None) -> str:
        """Return the name of a node, and which start of it; only that when it is gone."""
        names = [node.name for node in self.nodes if node.incarnation == incarnation]
        return f"{one_line(names[0])} ({incarnation})" if names else f"{incarnation}, which is gone"


@click.command(
    "show",
    epilog=example(
        "detent jobs show 01890a5d-ac96-774b-bcce-b302099a8057",
        "detent jobs show 01890a5d-ac96-774b-bcce-b302099a8057 --json",
    ),
)
@click.argument("job_id", metavar="ID", callback=reading(read_id))
@click.option("--full", "in_full", is_flag=True, help="Shorten nothing; with all tracebacks.")
@store_options
@json_option
def show_command(
    job_id: UUID, in_full: bool, url: str | None, schema: str | None, as_json: bool
) -> None:
    """Show all that is known about one job.

    Arguments, options, attempts, log, progress, result; who runs it or what it waits for. Long
    values are shortened, and of a long log the last lines are shown, unless --full is given.
    """

    async def look(session: Session) -> Found:
        job = await session.jobs.get(job_id)
        queues = [queue for queue in await session.queues.list() if queue.name == job.queue]
        return Found(
            job,
            await session.jobs.attempts(job_id),
            await session.jobs.log(job_id, ALL_LOG_LINES),
            await session.store.nodes(),
            queues[0] if queues else None,
            may_be_limited(job, [each.limit.name for each in await session.limits.list()]),
        )

    found = with_session(load_config(url, schema), look)
    if as_json:
        print_json(document(found, now()))
        return
    print_pairs(list(_pairs(found, now(), in_full)))
    _print_attempts(found, in_full)
    _print_log(found.log, in_full)
    print_next(*next_commands(found.job))


def document(found: Found, at: datetime) -> dict[str, Any]:
    """Return everything as one value."""
    return full(found.job) | {
        "waits_for": waits_for(found, at),
        "attempts": [attempt_record(attempt) for attempt in found.attempts],
        "log": [log_record(entry) for entry in found.log],
    }


def may_be_limited(job: JobInfo, limits: Iterable[str]) -> bool:
    """Return whether a limit may hold the job back; which resource it takes, only its app knows."""
    own = {f"{kind}:{job.task}{each}" for kind in ("task", "rate") for each in ("", "#")}
    own.add(f"queue:{job.queue}")
    return any(name in own or name.startswith("resource:") for name in limits)


def waits_for(found: Found, at: datetime) -> str | None:
    """Return in words what has to happen before the job runs; None when nothing has to."""
    job = found.job
    if job.state is State.PAUSED:
        return "for somebody who resumes it"
    if job.state is State.WAITING:
        return REASONS.get(job.reason or "", "for another job")
    if job.state is not State.PENDING:
        return None
    if job.due_at > at:
        return "for its time"
    if found.queue is not None and found.queue.paused:
        return f"for its queue, which is paused: detent queues resume {job.queue}"
    takers = [node for node in found.nodes if job.queue in node.queues and node.lease_until > at]
    needed = ", ".join(job.needs)
    if not takers:
        return f"for a node: none that runs takes the queue {job.queue}"
    if not any(set(job.needs) <= set(node.capabilities) for node in takers):
        return f"for a node: none that takes the queue {job.queue} offers {needed}"
    slot = "for a free slot on a node" + f" that offers {needed}" * bool(needed)
    return slot + ", or for a limit: detent limits" * found.may_be_limited


def next_commands(job: JobInfo) -> list[str]:
    """Return the commands that make sense in the state of the job."""
    if job.archived_at is not None:
        return []  # the archive is to be looked at only
    allowed = [str(verb) for verb in verbs(job.state) if verb in COMMANDS]
    if job.state in TERMINAL:
        allowed.append("delete")
    return [f"detent jobs {verb} {job.id}" for verb in allowed]


def _pairs(found: Found, at: datetime, in_full: bool) -> Iterator[tuple[str, Any]]:
    """Yield what is known, in the order in which people ask for it."""
    job = found.job
    yield "id", str(job.id)
    yield "task", one_line(job.task)
    yield "state", state_text(str(job.state)) if on_terminal() else str(job.state)
    if wait := waits_for(found, at):
        yield "waits", wait
    if job.cancel_requested:
        yield "cancel", "requested; the job has not stopped yet"
    if job.cancel_too_late:
        yield "cancel", f"came too late: the job had {job.state}"
    if job.progress is not None:
        yield "progress", _progress(job)
    yield from _ending(job, in_full)
    yield from _times(found, at)
    yield "args", _value(job.decoded_args, in_full)
    if job.params is not None:
        yield "params", _value(decoded(job.params, job.codec), in_full)
    yield from _options(job)


def _ending(job: JobInfo, in_full: bool) -> Iterator[tuple[str, str]]:
    if job.state is State.SUCCEEDED:
        yield "result", _value(job.decoded_result, in_full)
    if job.error is not None:
        yield "error", _error(job.decoded_error, in_full)
    if job.reason is not None and job.state in TERMINAL:
        yield "reason", one_line(job.reason, None if in_full else SHORT)
    if job.replaced_by is not None:
        yield "replaced by", str(job.replaced_by)


def _times(found: Found, at: datetime) -> Iterator[tuple[str, str]]:
    job = found.job
    yield "enqueued", _moment(job.enqueued_at, at)
    yield "due", _moment(job.due_at, at)
    if job.started_at is not None:
        yield "started", _moment(job.started_at, at)
    if job.finished_at is not None:
        took = "" if job.duration is None else f", took {span(job.duration)}"
        yield "ended", _moment(job.finished_at, at) + took
    if job.archived_at is not None:
        yield "archived", _moment(job.archived_at, at)
    if job.node is not None:
        yield "node", found.node_name(job.node)


def _options(job: JobInfo) -> Iterator[tuple[str, str]]:
    yield "queue", one_line(job.queue)
    yield "priority", Priority(job.priority).name.lower()
    tries = [f"{job.attempt}"]
    tries += [f"generation {job.generation}"] if job.generation > 1 else []
    tries += [f"{job.crashes} crashes"] if job.crashes else []
    yield "attempt", ", ".join(tries)
    for name, value in (
        ("needs", ", ".join(job.needs)),
        ("tags", ", ".join(one_line(tag) for tag in job.tags)),
        ("key", one_line(job.idempotency_key or "")),
        ("unique", one_line(job.unique_key or "")),
        ("principal", one_line(job.principal or "")),
        ("options", "" if (found := said(job.options)) is None else _value(found, True)),
    ):
        if value:
            yield name, value


def _print_attempts(found: Found, in_full: bool) -> None:
    if found.attempts:
        click.echo("\nattempts that did not succeed")
    for attempt in found.attempts:
        number = f"{attempt.number}"
        if attempt.generation > 1 or found.job.generation > 1:
            number = f"{attempt.generation}.{attempt.number}"
        words = f"  {number:<4}{attempt.kind:<10} {_time(attempt.ended_at)}"
        if attempt.node is not None:
            words += f"  on {found.node_name(attempt.node)}"
        click.echo(words)
        if attempt.error is not None:
            for line in _error(decoded(attempt.error), in_full).splitlines():
                click.echo(f"      {line}")


def _print_log(log: Sequence[LogEntry], in_full: bool) -> None:
    if not log:
        return
    shown = log if in_full else log[-LOG_LINES:]
    left_out = f", the last {len(shown)} of {len(log):,} lines" if len(shown) < len(log) else ""
    click.echo(f"\nlog{left_out}")
    for entry in shown:
        message = one_line(entry.message, None if in_full else SHORT)
        click.echo(f"  {_time(entry.at)}  try {entry.attempt}  {entry.level:<9}{message}")


def _progress(job: JobInfo) -> str:
    fraction = min(max(job.progress or 0.0, 0.0), 1.0)
    bar = "█" * round(fraction * BAR) + "░" * (BAR - round(fraction * BAR))
    words = f"{fraction:.0%}" + (f"  {bar}" if on_terminal() else "")
    return words + (f"  {one_line(job.progress_message)}" if job.progress_message else "")


def _moment(moment: datetime, at: datetime) -> str:
    """Return a moment to people with how long ago it was, to programs so that it stays true."""
    return f"{local(moment)}  ({ago(moment, at)})" if on_terminal() else f"{iso(moment)}"


def _time(moment: datetime) -> str:
    return local(moment) if on_terminal() else f"{iso(moment)}"


def _value(value: Any, in_full: bool) -> str:
    return one_line(json.dumps(value, ensure_ascii=False), None if in_full else SHORT)


def _error(error: Any, in_full: bool) -> str:
    """Return an error in one line, or with its traceback."""
    if not isinstance(error, dict):
        return one_line(str(error), None if in_full else SHORT)
    if in_full and error.get("traceback"):
        lines = str(error["traceback"]).splitlines()
        return "\n".join("".join(_printable(line)) for line in lines)
    return one_line(f"{error.get('type')}: {error.get('message')}", None if in_full else SHORT)


def _printable(line: str) -> Iterator[str]:
    return (char if char.isprintable() else REPLACEMENT for char in line.replace("\t", "    "))
