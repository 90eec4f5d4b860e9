"""In whose name this code runs: said by the application, kept with its jobs, known in them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from detent.errors import ConfigError

MAX_PRINCIPAL: Final = 255

_acting: Final[ContextVar[str | None]] = ContextVar("detent_principal", default=None)
current_principal: Final = _acting.get
inherit: Final = _acting.set


@contextmanager
def acting_as(principal: str) -> Iterator[None]:
    """Do what stands in a `with` block in somebody's name.

    Jobs enqueued in it keep the name, and so do the jobs that those enqueue. It says who acts;
    whether he is who he says he is the application has to know.
    """
    before = _acting.set(check_principal(principal))
    try:
        yield
    finally:
        _acting.reset(before)


def check_principal(principal: object) -> str:
    """Return a principal, or raise `ConfigError`."""
    fits = isinstance(principal, str) and 1 <= len(principal) <= MAX_PRINCIPAL
    if not fits or not str(principal).isprintable():
        shown = principal[:40] if isinstance(principal, str) else principal
        raise ConfigError(
            f"principal = {shown!r}: must be 1 to {MAX_PRINCIPAL} printable characters"
        )
    return str(principal)
