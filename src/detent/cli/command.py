"""What all commands share: options, one-line errors, and the event loop they run on."""

import asyncio
import importlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import IO, Any, Final, TypeVar

import click

from detent.config import Config, redact
from detent.errors import ConfigError, DetentError, StoreUnavailable

Result = TypeVar("Result")

FAILED: Final = 1
NOT_UNDERSTOOD: Final = 2

url_option = click.option(
    "--url", metavar="URL", help="The database.  [default: DETENT_URL, else detent.toml]"
)
schema_option = click.option(
    "--schema", metavar="NAME", help='Its schema.  [default: detent.toml, else "detent"]'
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class Failed(click.ClickException):
    """An error that people can do something about: one line, no traceback."""

    exit_code = FAILED

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line where errors belong."""
        click.echo(f"detent: error: {self.message}", file=file, err=file is None)


class NotUnderstood(Failed):
    """The same for what was asked, rather than for what was done."""

    exit_code = NOT_UNDERSTOOD


class CommandGroup(click.Group):
    """Turns the errors that Detent raises on purpose into one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise NotUnderstood(str(error)) from error
        except DetentError as error:
            raise Failed(str(error)) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which people need them."""
        return list(self.commands)


def load_config(url: str | None, schema: str | None = None) -> Config:
    """Return the settings, with what the options say differently."""
    config = Config.load(url)
    if schema is None:
        return config
    return replace(config, store=replace(config.store, schema=schema))


def run(work: Coroutine[Any, Any, Result], config: Config) -> Result:
    """Run a coroutine to its end, on uvloop where it is installed."""
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(work)
    except StoreUnavailable as error:
        # The driver's words seldom say which database it was.
        raise Failed(f"{error} ({redact(config.store.url)})") from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
            "uvloop"
        ).new_event_loop
    except ImportError:
        return None
    return factory


def print_json(document: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def example(*lines: str) -> str:
    """Return an epilog whose lines stay as they are."""
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", heading, *(f"  {line}" for line in lines)])
