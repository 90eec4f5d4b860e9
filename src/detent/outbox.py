"""The outbox as people see it: which events wait for a sink, and which it would not take."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from detent.config import check_name
from detent.errors import ConfigError
from detent.model.access import Action, Target
from detent.protection import Protection
from detent.spi.outbox import EventInfo, OutboxStore

ALERTS: Final = "alert:"
"""What the names of the sinks of alerts begin with."""
PAGE: Final = 500
MOST: Final = 10_000


class Outbox:
    """All events that have not been delivered."""

    def __init__(self, store: OutboxStore, protection: Protection | None = None) -> None:
        self._store = store
        self._protection = protection or Protection()

    async def list(
        self, *, sink: str | None = None, undeliverable: bool | None = None, limit: int = 100
    ) -> Sequence[EventInfo]:
        """Return events that wait, the oldest first: of one sink, or only the undeliverable."""
        check_page(limit)
        if sink is not None:
            check_sink(sink)
        # They quote the errors of jobs.
        await self._permit(Action.READ, sink)
        return await self._store.list_events(sink=sink, parked=undeliverable, limit=limit)

    async def retry(self, *ids: int, sink: str | None = None) -> int:
        """Let undeliverable events be tried again as if they were new; return how many.

        Those of these ids, else those of a sink, else all.
        """
        await self._permit(Action.CONFIGURE, sink)
        return await _in_pages(self._store.retry_events, ids, sink)

    async def discard(self, *ids: int, sink: str | None = None) -> int:
        """Remove events that nobody is to get any more; return how many.

        Those of these ids, else all of a sink, also those that were not tried yet: for instance of
        one that no program declares any more.
        """
        if not ids and sink is None:
            raise ConfigError("outbox.discard(): name events, or sink=")
        await self._permit(Action.CONFIGURE, sink)
        return await _in_pages(self._store.discard_events, ids, sink)

    async def _permit(self, action: Action, sink: str | None) -> None:
        await self._protection.permit(action, Target(kind="outbox", name=sink or "*"))


async def _in_pages(
    work: Callable[[Sequence[int] | None, str | None, int], Awaitable[int]],
    ids: Sequence[int],
    sink: str | None,
) -> int:
    """Do something with the events of these ids, else with all of a sink, some at a time."""
    for number in ids:
        check_number("ids", number)
    if sink is not None:
        check_sink(sink)
    if ids:
        return await work(ids, sink, len(ids))
    count = 0
    while moved := await work(None, sink, PAGE):
        count += moved
        if moved < PAGE:
            break
    return count


def check_sink(name: object) -> None:
    """Refuse what cannot be the name of a sink, or of one of alerts."""
    check_name("sink", name.removeprefix(ALERTS) if isinstance(name, str) else name)


def check_page(limit: object) -> None:
    """Refuse a list of no length, or of one that is too much at once."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise ConfigError(f"limit = {limit!r}: must be 1 to {MOST}")


def check_number(field: str, value: object) -> None:
    """Refuse what cannot be the number of an event or an alert."""
    if type(value) is not int or not 1 <= value < 1 << 63:
        raise ConfigError(f"{field} = {value!r}: must be a number of those that were listed")
