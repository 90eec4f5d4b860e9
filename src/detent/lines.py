"""Log lines as the standard logger takes them; whatever is given, writing one fails nothing."""

import io
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Protocol

ExcInfo = (
    bool
    | BaseException
    | tuple[type[BaseException], BaseException, TracebackType | None]
    | tuple[None, None, None]
    | None
)


# By the numbers of the standard library.
_LEVELS: Final = {40: "error", 30: "warning", 20: "info"}


class LinePort(Protocol):
    """Where lines go."""

    def write_log(self, level: str, message: str) -> None: ...


class Lines:
    """Takes what `logging.Logger` takes.

    `extra` and `stacklevel` are accepted and not kept. A line that cannot be formatted says so.
    """

    __slots__ = ("_port",)

    def __init__(self, port: LinePort) -> None:
        self._port = port

    def debug(self, message: object, *args: object, **options: Any) -> None:
        """Keep a line of detail."""
        self._write("debug", message, args, options)

    def info(self, message: object, *args: object, **options: Any) -> None:
        """Keep a line."""
        self._write("info", message, args, options)

    def warning(self, message: object, *args: object, **options: Any) -> None:
        """Keep a line that somebody should see."""
        self._write("warning", message, args, options)

    def error(self, message: object, *args: object, **options: Any) -> None:
        """Keep a line about something that went wrong."""
        self._write("error", message, args, options)

    def exception(self, message: object, *args: object, **options: Any) -> None:
        """Keep a line about the error that is being handled, with its traceback."""
        self._write("error", message, args, {"exc_info": True, **options})

    def critical(self, message: object, *args: object, **options: Any) -> None:
        """Keep a line as `error` does."""
        self._write("error", message, args, options)

    def log(self, level: int, message: object, *args: object, **options: Any) -> None:
        """Keep a line of a level of `logging`."""
        self._write(_name_of(level), message, args, options)

    def _write(
        self, level: str, message: object, args: tuple[object, ...], options: Mapping[str, Any]
    ) -> None:
        self._port.write_log(level, _text(message, args, options))


def _name_of(level: object) -> str:
    if not isinstance(level, int):
        return "error"
    return next((name for least, name in _LEVELS.items() if level >= least), "debug")


def _text(message: object, args: tuple[object, ...], options: Mapping[str, Any]) -> str:
    parts = [_formatted(message, args)]
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        parts.append(f"(unknown options of this line: {', '.join(unknown)})")
    try:
        if error := _error_of(options.get("exc_info")):
            parts.append("".join(traceback.format_exception(error)).rstrip("\n"))
        if options.get("stack_info"):
            parts.append(_stack())
    except Exception as error:  # noqa: BLE001  whatever a user's exception does when it is shown
        parts.append(f"(its traceback cannot be shown: {type(error).__name__})")
    return "\n".join(parts)


_OPTIONS: Final = ("exc_info", "stack_info", "stacklevel", "extra")


def _formatted(message: object, args: tuple[object, ...]) -> str:
    """Return what the standard logger would write."""
    values: Any = args
    if len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
        values = args[0]
    try:
        return str(message) % values if args else str(message)
    except Exception as error:  # noqa: BLE001  a line about an error must not be one
        given = ", ".join(_shown(each) for each in (message, *args))
        return f"(cannot be formatted: {type(error).__name__}) {given}"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  the same
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def _error_of(given: ExcInfo) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return given[1]
    return sys.exc_info()[1] if given else None


def _stack() -> str:
    out = io.StringIO()
    out.write("Stack (most recent call last):\n")
    traceback.print_stack(sys._getframe(4), file=out)  # noqa: SLF001  as logging does
    return out.getvalue().rstrip("\n")
