"""`detent jobs`: looking at jobs, and changing what they do."""

from typing import Final

import click

from detent.cli.command import example
from detent.cli.groups import CommandGroup, Part

PARTS: Final = {
    "list": Part("detent.cli.jobs.listing:list_command", "List jobs, the newest first."),
    "show": Part("detent.cli.jobs.show:show_command", "Show all that is known about one job."),
    "cancel": Part(
        "detent.cli.jobs.change:cancel_command", "Cancel jobs; those that run are asked to stop."
    ),
    "retry": Part("detent.cli.jobs.change:retry_command", "Run jobs again that have ended."),
    "pause": Part("detent.cli.jobs.change:pause_command", "Keep pending jobs from running."),
    "resume": Part("detent.cli.jobs.change:resume_command", "Let paused jobs run."),
    "delete": Part("detent.cli.jobs.change:delete_command", "Delete jobs that have ended."),
}


@click.group(
    "jobs",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example(
        "detent jobs list --state failed --since 1h",
        "detent jobs show 01890a5d-ac96-774b-bcce-b302099a8057",
        "detent jobs retry --state failed --task shop.send",
    ),
)
def jobs_command() -> None:
    """Look at jobs, and change what they do.

    Without a command, the newest jobs are listed.
    """
