"""The `detent` command: the only part that reads arguments and prints.

Exit codes: 0 done, 1 failed (or, with `--check`, something is to be done), 2 not understood.
"""

import click

from detent.cli.bench import bench_command
from detent.cli.command import CommandGroup, example
from detent.cli.migrate import migrate_command
from detent.cli.node import node_command
from detent.version import __version__

__all__ = ["main"]


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("detent migrate --url postgresql://localhost/app", "detent node shop.jobs:app"),
)
@click.version_option(__version__, prog_name="detent", message="%(prog)s %(version)s")
def main() -> None:
    """Jobs, schedules and workflows on the database you already have.

    Settings come from options, else from DETENT_* variables, else from detent.toml.
    """


main.add_command(node_command)
main.add_command(migrate_command)
main.add_command(bench_command)
