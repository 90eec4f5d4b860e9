"""`detent calendars`: the times that schedules leave out."""

from shlex import quote
from typing import Any, Final

import click

from detent.calendars import Annual, Calendar, CronCalendar, DailyRange, Holidays, Weekly
from detent.cli.command import Failed, NotUnderstood, example, json_option, reading, store_options
from detent.cli.groups import CommandGroup, Part, meant
from detent.cli.moments import read_day, read_hours
from detent.cli.output import (
    Column,
    on_terminal,
    one_line,
    print_json,
    print_lines,
    print_next,
    print_table,
)
from detent.cli.running import load_config
from detent.cli.session import Session, with_session
from detent.errors import CalendarNotFound

PARTS: Final = {
    "list": Part("detent.cli.calendars:list_command", "List the calendars, by name."),
    "save": Part(
        "detent.cli.calendars:save_command", "Keep a calendar, in place of one of that name."
    ),
    "delete": Part("detent.cli.calendars:delete_command", "Remove a calendar that nobody uses."),
}
COLUMNS: Final = (
    Column("calendar", shrinks=True),
    Column("leaves out", shrinks=True),
    Column("stands on", shrinks=True),
)


@click.group(
    "calendars",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example(
        "detent calendars",
        "detent calendars save holidays --date 2026-12-25 --date 2026-12-26",
        "detent schedules update nightly --calendar holidays",
    ),
)
def calendars_command() -> None:
    """Look at the times that schedules leave out.

    Without a command, the calendars are listed.
    """


@click.command("list", epilog=example("detent calendars", "detent calendars list --json"))
@store_options
@json_option
def list_command(url: str | None, schema: str | None, as_json: bool) -> None:
    """List the calendars, by name.

    In a pipe each calendar is a line: name, what it leaves out and the calendar that it stands on,
    with tabs in between.
    """
    calendars = with_session(load_config(url, schema), lambda session: session.calendars.list())
    if as_json:
        print_json([_record(name, calendar) for name, calendar in calendars.items()])
    elif not on_terminal():
        print_lines([_row(name, calendar) for name, calendar in calendars.items()])
    elif not calendars:
        click.echo("There are no calendars.")
        print_next("detent calendars save holidays --date 2026-12-25")
    else:
        print_table(COLUMNS, [_row(name, calendar) for name, calendar in calendars.items()])
        print_next(f"detent schedules update NAME --calendar {quote(next(iter(calendars)))}")


def _record(name: str, calendar: Calendar) -> dict[str, Any]:
    return {"name": name, "leaves_out": calendar.describe(), "calendar": calendar.to_data()}


def _row(name: str, calendar: Calendar) -> tuple[str, str, str]:
    return one_line(name), one_line(calendar.describe()), one_line(calendar.base or "")


@click.command(
    "save",
    epilog=example(
        "detent calendars save holidays --date 2026-12-25 --date 2026-12-26",
        "detent calendars save weekend --weekday SAT --weekday SUN --base holidays",
        "detent calendars save night --daily 22:00-06:00 --timezone Europe/Berlin",
        "detent calendars save lunch --cron '* 12 * * *'",
    ),
)
@click.argument("name")
@click.option(
    "--date",
    "dates",
    metavar="DATE",
    multiple=True,
    callback=reading(read_day),
    help="A day of one year; may be repeated.",
)
@click.option("--annual", metavar="MM-DD", multiple=True, help="A day of every year; the same.")
@click.option("--weekday", "weekdays", metavar="MON", multiple=True, help="The same.")
@click.option(
    "--daily", metavar="22:00-06:00", callback=reading(read_hours), help="A part of every day."
)
@click.option("--cron", metavar="TEXT", help="All that it matches.")
@click.option("--timezone", metavar="ZONE", default="UTC", show_default=True)
@click.option("--base", metavar="NAME", help="A calendar whose times are left out too.")
@store_options
@json_option
def save_command(
    *,
    name: str,
    timezone: str,
    base: str | None,
    url: str | None,
    schema: str | None,
    as_json: bool,
    **kinds: Any,
) -> None:
    """Keep a calendar, in place of one of that name.

    Schedules that use it go by it from now on.
    """
    calendar = _calendar(kinds, timezone, base)

    async def save(session: Session) -> None:
        await session.calendars.save(name, calendar)

    with_session(load_config(url, schema), save)
    if as_json:
        print_json(_record(name, calendar))
    elif on_terminal():
        click.echo(f"The calendar {click.style(name, bold=True)}: {calendar.describe()}.")
        print_next(f"detent schedules update NAME --calendar {quote(name)}")
    else:
        print_lines([(name, "saved")])


def _calendar(kinds: dict[str, Any], timezone: str, base: str | None) -> Calendar:
    """Return the calendar that the options describe: exactly one kind of them."""
    given = [kind for kind, value in kinds.items() if value]
    if len(given) != 1:
        raise NotUnderstood("give one kind: --date, --annual, --weekday, --daily or --cron")
    try:
        match given[0]:
            case "dates":
                return Holidays(kinds["dates"], timezone, base)
            case "annual":
                return Annual(kinds["annual"], timezone, base)
            case "weekdays":
                return Weekly(kinds["weekdays"], timezone, base)
            case "daily":
                start, end = kinds["daily"]
                return DailyRange(start, end, timezone=timezone, base=base)
            case _:
                return CronCalendar(kinds["cron"], timezone, base)
    except (TypeError, ValueError) as error:
        raise NotUnderstood(str(error)) from error


@click.command("delete", epilog=example("detent calendars delete holidays"))
@click.argument("name")
@store_options
@json_option
def delete_command(name: str, url: str | None, schema: str | None, as_json: bool) -> None:
    """Remove a calendar that nobody uses.

    One that schedules or other calendars need is refused, and they are named.
    """

    async def delete(session: Session) -> None:
        try:
            await session.calendars.delete(name)
        except CalendarNotFound as error:
            names = list(await session.calendars.list())
            hint = meant(name, names, "known are") if names else "there is none yet"
            raise Failed(f"{error}; {hint}") from error

    with_session(load_config(url, schema), delete)
    if as_json:
        print_json({"calendar": name, "deleted": True})
    elif on_terminal():
        click.echo(f"The calendar {click.style(name, bold=True)} is gone.")
        print_next("detent calendars")
    else:
        print_lines([(name, "deleted")])
