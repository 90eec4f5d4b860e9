"""`detent jobs cancel|retry|pause|resume|delete`: the same command with five verbs."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import click

from detent.cli.command import (
    FAILED,
    Command,
    Failed,
    NotUnderstood,
    example,
    json_option,
    reading,
    store_options,
)
from detent.cli.jobs.bulk import Changed, change_all, count
from detent.cli.jobs.selection import described, filter_of, filter_options, read_id
from detent.cli.output import can_ask, confirm, on_terminal, print_json, print_lines, print_next
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.config import Config
from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.jobs import Jobs
from detent.model.job import JobFilter
from detent.model.state import TERMINAL, State, Verb, sources

ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"


class Kind(NamedTuple):
    """One of the five verbs."""

    name: str
    done: str
    states: tuple[State, ...]
    """The states in which a job allows it."""
    meant: tuple[State, ...]
    """The states that are meant when many jobs are, and no state is named."""


CANCEL: Final = Kind("cancel", "canceled", sources(Verb.CANCEL), sources(Verb.CANCEL))
RETRY: Final = Kind("retry", "retried", sources(Verb.RETRY), (State.FAILED,))
PAUSE: Final = Kind("pause", "paused", sources(Verb.PAUSE), sources(Verb.PAUSE))
RESUME: Final = Kind("resume", "resumed", sources(Verb.RESUME), sources(Verb.RESUME))
DELETE: Final = Kind("delete", "deleted", TERMINAL, TERMINAL)


def change_options(command: Command) -> Command:
    """Give a command what all five take."""
    decorators = (
        click.argument("ids", metavar="[ID]...", nargs=-1, callback=reading(read_id)),
        filter_options,
        click.option("--all", "everything", is_flag=True, help="All jobs, if no filter is given."),
        click.option("--yes", is_flag=True, help="Do not ask before many jobs are changed."),
        store_options,
        json_option,
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def examples(verb: str, state: State) -> str:
    """Return the examples of a verb: one job, and many."""
    return example(f"detent jobs {verb} {ID}", f"detent jobs {verb} --state {state} --since 1h")


@click.command("cancel", epilog=examples("cancel", State.PENDING))
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the job.")
@click.option("--wait", is_flag=True, help="Wait until jobs named by their ids have stopped.")
@change_options
def cancel_command(reason: str | None, wait: bool, **options: Any) -> None:
    """Cancel jobs; those that run are asked to stop.

    By their ids, or all that match the filters. With --wait the answer says what came of it: a job
    that ended otherwise before it could stop is named, and the exit code is 1.
    """
    if wait and not options["ids"]:
        raise NotUnderstood("detent jobs cancel: --wait needs the ids of the jobs")
    _change(CANCEL, options, reason, wait)


@click.command("retry", epilog=examples("retry", State.FAILED))
@change_options
def retry_command(**options: Any) -> None:
    """Run jobs again that have ended.

    By their ids, or all that match the filters: the failed ones, unless --state says otherwise.
    """
    _change(RETRY, options)


@click.command("pause", epilog=examples("pause", State.PENDING))
@change_options
def pause_command(**options: Any) -> None:
    """Keep pending jobs from running.

    By their ids, or all that match the filters. `detent queues pause` does it for a whole queue,
    with the jobs that are still to come.
    """
    _change(PAUSE, options)


@click.command("resume", epilog=examples("resume", State.PAUSED))
@change_options
def resume_command(**options: Any) -> None:
    """Let paused jobs run.

    By their ids, or all that match the filters.
    """
    _change(RESUME, options)


@click.command("delete", epilog=examples("delete", State.SUCCEEDED))
@change_options
def delete_command(**options: Any) -> None:
    """Delete jobs that have ended.

    By their ids, or all that match the filters; with their attempts, logs and results.
    """
    _change(DELETE, options)


def _change(
    kind: Kind, options: dict[str, Any], reason: str | None = None, wait: bool = False
) -> None:
    config = load_config(options.pop("url"), options.pop("schema"))
    ids: Sequence[UUID] = tuple(dict.fromkeys(options.pop("ids")))
    everything, yes = options.pop("everything"), options.pop("yes")
    as_json = options.pop("as_json")
    where = filter_of(options)
    narrow = where != JobFilter()
    if ids and (narrow or everything):
        raise NotUnderstood(f"detent jobs {kind.name}: give ids or filters, not both")
    if not ids and narrow is everything:
        problem = "--all and a filter do not go together" if narrow else "say which jobs: ids, "
        raise NotUnderstood(
            f"detent jobs {kind.name}: {problem}"
            + ("" if narrow else f"a filter such as --state {kind.meant[0]}, or --all")
        )
    if ids:
        changed = with_session(
            config, lambda session: _change_each(session, kind, ids, reason, wait)
        )
    else:
        changed = _change_many(config, kind, where, reason, yes)
    _print(kind, changed, as_json)


async def _change_each(
    session: Session, kind: Kind, ids: Sequence[UUID], reason: str | None, wait: bool
) -> Changed:
    changed = Changed()

    async def change(job_id: UUID) -> None:
        try:
            changed.states[job_id] = await _one(session.jobs, kind, job_id, reason, wait)
        except (Conflict, JobNotFound, KeyTaken) as error:
            changed.refused[job_id] = str(error)

    if wait:
        # Side by side: none is asked only when another one has stopped.
        await asyncio.gather(*map(change, ids))
    else:
        for job_id in ids:
            await change(job_id)
    changed.count = len(changed.states)
    return changed


async def _one(jobs: Jobs, kind: Kind, job_id: UUID, reason: str | None, wait: bool) -> str:
    """Change one job; return what it is now."""
    match kind.name:
        case "cancel":
            state = await jobs.cancel(job_id, reason=reason, wait=wait)
            return "asked to stop" if state is State.RUNNING else str(state)
        case "retry":
            return str(await jobs.retry(job_id))
        case "pause":
            return str(await jobs.pause(job_id))
        case "resume":
            return str(await jobs.resume(job_id))
        case _:
            await jobs.delete(job_id)
            return "deleted"


def _change_many(
    config: Config, kind: Kind, where: JobFilter, reason: str | None, yes: bool
) -> Changed:
    states = tuple(state for state in where.states or kind.meant if state in kind.states)
    if not states:
        raise NotUnderstood(
            f"detent jobs {kind.name}: no {' or '.join(where.states)} job allows it; "
            f"--state must be {' or '.join(kind.states)}"
        )
    where = replace(where, states=states)
    total: int | None = None
    if not yes:
        if not can_ask():
            raise NotUnderstood(f"detent jobs {kind.name}: nobody to ask here; add --yes")
        total, more = with_session(config, lambda session: count(session, where))
        if not total:
            return Changed()
        words = f"{total:,}{' or more' if more else ''} job{'s' if total != 1 else ''}"
        total = None if more else total
        if not confirm(f"{kind.name.capitalize()} {words} ({described(where)})?"):
            raise Failed("nothing was changed")
    return with_session(
        config, lambda session: change_all(session, kind.name, where, reason, total)
    )


def _print(kind: Kind, changed: Changed, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "changed": changed.count,
                "jobs": [{"id": str(key), "state": now} for key, now in changed.states.items()],
                "failed": [{"id": str(key), "error": why} for key, why in changed.refused.items()],
            }
        )
    elif changed.states:
        rows = [(job_id, state) for job_id, state in changed.states.items()]
        print_lines(rows) if not on_terminal() else _print_each(rows)
    elif not changed.refused or changed.count:
        many = "asked to stop or canceled" if kind is CANCEL else kind.done
        click.echo(f"{changed.count:,} job{'' if changed.count == 1 else 's'} {many}")
    if not as_json:
        for why in changed.refused.values():
            Failed(why).show()
        if len(changed.states) == 1 and kind is not DELETE:
            print_next(f"detent jobs show {next(iter(changed.states))}")
    if changed.refused:
        click.get_current_context().exit(FAILED)


def _print_each(rows: Sequence[tuple[UUID, str]]) -> None:
    for job_id, state in rows:
        click.echo(f"{job_id}  {click.style(state, bold=True)}")
