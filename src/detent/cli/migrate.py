"""`detent migrate`: brings the database to the schema that this version knows."""

from datetime import timedelta

import click

from detent.cli.command import FAILED, example, json_option, reading, store_options
from detent.cli.output import print_json, print_whole
from detent.cli.running import load_config, run
from detent.config import Config, parse_duration, redact
from detent.databases import migrate_store, migration_script, pending_migrations


@click.command(
    "migrate",
    epilog=example(
        "detent migrate --url postgresql://localhost/app",
        "detent migrate --check   # in a deployment: exit code 1 when steps are pending",
        "detent migrate --sql > detent.sql",
    ),
)
@store_options
@click.option("--plan", "mode", flag_value="plan", help="Only say which steps are pending.")
@click.option("--check", "mode", flag_value="check", help="The same; exit code 1 if there are any.")
@click.option("--sql", "mode", flag_value="sql", help="Only print the SQL of all steps.")
@click.option(
    "--wait",
    metavar="10m",
    default="10m",
    callback=reading(parse_duration),
    help="How long to try while open transactions of others hold locks. Default: 10m.",
)
@json_option
def migrate_command(
    url: str | None, schema: str | None, mode: str | None, wait: timedelta, as_json: bool
) -> None:
    """Create or update the tables of Detent.

    Safe to repeat, to run from several places at once, and beside running nodes: a step that
    cannot have its locks within a second gives way, names the sessions that hold them, and tries
    again.
    """
    config = load_config(url, schema)
    if mode == "sql":
        _print_script(config, as_json)
    elif mode is None:
        applied = run(migrate_store(config, wait=wait, told=_print_waiting), config)
        _print_applied(config, applied, as_json)
    else:
        pending = run(pending_migrations(config), config)
        _print_pending(config, pending, as_json)
        if pending and mode == "check":
            click.get_current_context().exit(FAILED)


def _print_waiting(what: str) -> None:
    click.echo(f"waiting  {what}", err=True)


def _print_script(config: Config, as_json: bool) -> None:
    script = migration_script(config)
    if as_json:
        print_json({"schema": config.store.schema, "sql": script})
    else:
        print_whole(script)


def _print_applied(config: Config, applied: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"schema": config.store.schema, "applied": applied})
        return
    for step in applied:
        click.echo(f"applied  {step}")
    what = "is ready" if applied else "was up to date"
    click.echo(f"{_where(config)} {what}; next: detent node APP")


def _print_pending(config: Config, pending: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"schema": config.store.schema, "pending": pending})
        return
    for step in pending:
        click.echo(f"pending  {step}")
    if pending:
        click.echo(f"{_where(config)} is behind; run: detent migrate")
    else:
        click.echo(f"{_where(config)} is up to date; nothing to do")


def _where(config: Config) -> str:
    """Say which database it was: an app may name another one in its code."""
    return f"The schema {config.store.schema!r} in {redact(config.store.url)}"
