"""Groups of commands: they load a command when it is called, and turn every mistake into a line.

Without this `detent --version` would import the engine, and a typing error would be answered with
a page of usage.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from detent.cli.command import Failed, NotUnderstood, example
from detent.errors import (
    AlertNotFound,
    BreakerNotFound,
    ConfigError,
    DetentError,
    InvalidJob,
    NodeNotFound,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

INTERRUPTED: Final = 130
HELP: Final = ("-h", "--help")


class Part(NamedTuple):
    """A command that is not loaded yet: where it stands, and what it is for."""

    place: str
    summary: str


class CommandGroup(click.Group):
    """Some commands, in the order in which people need them."""

    def __init__(
        self,
        *args: Any,
        parts: Mapping[str, Part],
        default: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.parts = parts
        self.default = default

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.parts)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command when it is needed."""
        if cmd_name not in self.commands and cmd_name in self.parts:
            module, _, attribute = self.parts[cmd_name].place.partition(":")
            self.commands[cmd_name] = getattr(importlib.import_module(module), attribute)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, part.summary) for name, part in self.parts.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put in the command that is meant when none is named."""
        unnamed = not args or (args[0].startswith("-") and args[0] not in HELP)
        if self.default is not None and unnamed and not ctx.resilient_parsing:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named, or say which one was probably meant."""
        if not ctx.resilient_parsing and args[0] not in self.parts:
            raise NotUnderstood(
                f"{ctx.command_path}: there is no command {args[0]!r}; "
                + meant(args[0], self.parts, "the commands are")
            )
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Offer the commands without loading them, and the options."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only here

        items = [
            CompletionItem(name, help=part.summary)
            for name, part in self.parts.items()
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def listing(
    name: str, parts: Mapping[str, Part], *examples: str
) -> Callable[[Callable[..., Any]], CommandGroup]:
    """Make a group of commands about many things, which are listed when none is named."""
    made: Callable[[Callable[..., Any]], CommandGroup] = click.group(
        name,
        cls=CommandGroup,
        parts=parts,
        default="list",
        subcommand_metavar="[COMMAND] [ARGS]...",
        epilog=example(*examples),
    )
    return made


class Program(CommandGroup):
    """The whole command: the only place where errors become lines and exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and end the process with its exit code."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = INTERRUPTED
        except click.ClickException as error:
            if not standalone_mode:
                raise
            error.show()
            code = error.exit_code
        if not standalone_mode:
            return code
        sys.exit(code or 0)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Read the arguments of the program itself."""
        with _Translated():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with _Translated():
            return super().invoke(ctx)


class _Translated:
    """Turns the errors that Detent and click raise on purpose into ours."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        match error:
            case ConfigError() | InvalidJob():
                raise NotUnderstood(str(error)) from error
            case DetentError():
                raise Failed(str(error) + _listing(error)) from error
            case click.UsageError():
                raise NotUnderstood(_usage(error)) from error
            case KeyboardInterrupt():
                if sys.stderr.isatty():
                    click.echo(err=True)  # the terminal has just printed ^C
                raise click.exceptions.Exit(INTERRUPTED) from error


def _listing(error: DetentError) -> str:
    """Return where those stand that there are, if the error names one that there is not."""
    match error:
        case NodeNotFound():
            return "; see: detent nodes"
        case AlertNotFound():
            return "; see: detent alerts list"
        case BreakerNotFound() if not str(error).endswith("?"):
            return "; see: detent breakers"
    return ""


def _usage(error: click.UsageError) -> str:
    """Return what click has to say, and where to read more."""
    words = error.format_message().rstrip(".")
    if error.ctx is None:
        return words
    if isinstance(error, click.NoSuchOption):
        names = [name for option in error.ctx.command.params for name in option.opts]
        hint = meant(error.option_name, names, "")
        words = f"there is no option {error.option_name}" + (f"; {hint}" if hint else "")
    return f"{words} (see: {error.ctx.command_path} -h)"


def meant(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a guess at what a word was meant to be, else all that it could be."""
    import difflib  # noqa: PLC0415  only for mistakes

    names = list(known)
    if near := difflib.get_close_matches(word, names, n=1):
        return f"did you mean {near[0]}?"
    return f"{otherwise} {', '.join(names)}" if otherwise else ""
