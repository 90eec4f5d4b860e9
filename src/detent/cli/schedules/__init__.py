"""`detent schedules`: what fires when, and all that can be done about it."""

from typing import Final

import click

from detent.cli.command import example
from detent.cli.groups import CommandGroup, Part

PARTS: Final = {
    "list": Part("detent.cli.schedules.listing:list_command", "List schedules by name."),
    "show": Part(
        "detent.cli.schedules.show:show_command", "Show all that is known about one schedule."
    ),
    "next": Part(
        "detent.cli.schedules.coming:next_command", "Print the next slots, and say it in words."
    ),
    "history": Part(
        "detent.cli.schedules.past:history_command",
        "List what became of the slots of a schedule, the latest first.",
    ),
    "pause": Part(
        "detent.cli.schedules.change:pause_command", "Let schedules fire no more for now."
    ),
    "resume": Part("detent.cli.schedules.change:resume_command", "Let schedules fire again."),
    "trigger": Part("detent.cli.schedules.past:trigger_command", "Fire a schedule once, now."),
    "backfill": Part(
        "detent.cli.schedules.past:backfill_command",
        "Fire the slots of a time in the past that were never fired.",
    ),
    "create": Part(
        "detent.cli.schedules.edit:create_command", "Create a schedule for a task of APP."
    ),
    "update": Part("detent.cli.schedules.edit:update_command", "Change some fields of a schedule."),
    "reset": Part(
        "detent.cli.schedules.change:reset_command",
        "Give edited fields back to the code that declares the schedule.",
    ),
    "delete": Part("detent.cli.schedules.change:delete_command", "Remove a schedule."),
}


@click.group(
    "schedules",
    cls=CommandGroup,
    parts=PARTS,
    default="list",
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=example(
        "detent schedules",
        "detent schedules next nightly --count 10",
        'detent schedules next --cron "0 9 * * MON-FRI" --timezone Europe/Berlin',
        "detent schedules pause nightly",
    ),
)
def schedules_command() -> None:
    """Look at schedules, change them, fire them.

    Without a command, they are listed.
    """
