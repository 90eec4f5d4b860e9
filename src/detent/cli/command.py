"""What all commands are made of: options, examples, and errors of one line."""

from collections.abc import Callable
from typing import IO, Any, Final, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FAILED: Final = 1
NOT_UNDERSTOOD: Final = 2

url_option = click.option(
    "--url", metavar="URL", help="The database.  [default: DETENT_URL, else detent.toml]"
)
schema_option = click.option(
    "--schema", metavar="NAME", help='Its schema.  [default: detent.toml, else "detent"]'
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def store_options(command: Command) -> Command:
    """Give a command the options that say which store it speaks to."""
    return url_option(schema_option(command))


def reading(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that reads what was typed; a `ValueError` says what would be valid."""

    def one(value: str) -> Any:
        try:
            return read(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} {error}") from error

    def callback(_: click.Context, __: click.Parameter, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(one(each) for each in value)
        return None if value is None else one(value)

    return callback


class Whole(click.IntRange):
    """A whole number; whoever types something else is told which ones there are."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read what was typed."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            most = "on" if self.max is None else f"to {self.max:,}"
            valid = f"must be a whole number from {self.min:,} {most}"
            self.fail(f"{str(value)!r} {valid}", param, ctx)


class Failed(click.ClickException):
    """An error that people can do something about: one line, then details if there are any."""

    exit_code = FAILED

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(" ".join(message.split()))
        self.details = details

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it where errors belong."""
        lines = [f"detent: error: {self.message}", *self.details.splitlines()]
        click.echo("\n".join(lines), file=file, err=file is None)


class NotUnderstood(Failed):
    """The same for what was asked, rather than for what was done."""

    exit_code = NOT_UNDERSTOOD


def example(*lines: str) -> str:
    """Return an epilog whose lines stay as they are."""
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", heading, *(f"  {line}" for line in lines)])
