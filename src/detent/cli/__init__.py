"""The `detent` command: the only part that reads arguments and prints.

Exit codes: 0 done, 1 failed (or, with `--check`, something is to be done), 2 not understood.
"""

from typing import Final

import click

from detent.cli.command import example
from detent.cli.groups import Part, Program
from detent.version import __version__

__all__ = ["main"]

PARTS: Final = {
    "demo": Part(
        "detent.cli.demo:demo_command",
        "Run a few thousand jobs on three nodes, and kill one of them on the way.",
    ),
    "init": Part("detent.cli.init:init_command", "Write a first detent.toml and tasks.py."),
    "node": Part("detent.cli.node:node_command", "Run a node that works on the jobs of APP."),
    "enqueue": Part("detent.cli.enqueue:enqueue_command", "Enqueue one job of APP."),
    "jobs": Part("detent.cli.jobs:jobs_command", "Look at jobs, and change what they do."),
    "queues": Part(
        "detent.cli.queues:queues_command", "Look at queues; pause, resume and scale them."
    ),
    "schedules": Part(
        "detent.cli.schedules:schedules_command", "Look at schedules, change them, fire them."
    ),
    "calendars": Part(
        "detent.cli.calendars:calendars_command", "Look at the times that schedules leave out."
    ),
    "breakers": Part(
        "detent.cli.breakers:breakers_command",
        "Look at circuit breakers; open and reset them.",
    ),
    "limits": Part(
        "detent.cli.limits:limits_command", "Look at limits; change them while jobs run."
    ),
    "nodes": Part(
        "detent.cli.nodes:nodes_command", "Look at the nodes; let them drain, or forget them."
    ),
    "leaders": Part(
        "detent.cli.leaders:leaders_command", "Look at who leads: chores, schedules and daemons."
    ),
    "daemons": Part(
        "detent.cli.daemons:daemons_command",
        "Look at the daemons: where each runs, and how it is doing.",
    ),
    "locks": Part(
        "detent.cli.locks:locks_command", "Look at the locks that are held; release one."
    ),
    "outbox": Part(
        "detent.cli.outbox:outbox_command",
        "Look at events that no sink has taken yet; try them again.",
    ),
    "alerts": Part(
        "detent.cli.alerts:alerts_command",
        "Look at the kinds of failures; note that somebody has seen one.",
    ),
    "migrate": Part("detent.cli.migrate:migrate_command", "Create or update the tables of Detent."),
    "bench": Part(
        "detent.cli.bench:bench_command",
        "Measure enqueuing and running jobs that do nothing, with one node.",
    ),
    "completion": Part(
        "detent.cli.completion:completion_command", "Print what a shell needs to complete."
    ),
}


@click.group(
    cls=Program,
    parts=PARTS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example(
        "detent init",
        "detent node tasks:app",
        """detent enqueue tasks:app tasks.greet '{"name": "Ada"}'""",
        "detent jobs list --state failed --since 1h",
    ),
)
@click.version_option(__version__, prog_name="detent", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Jobs, schedules and workflows on the database you already have.

    Settings come from options, else from DETENT_* variables, else from detent.toml. Exit codes:
    0 done, 1 failed, 2 not understood.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
