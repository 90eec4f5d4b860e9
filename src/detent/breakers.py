"""What people do with circuit breakers: look at them, open and reset them."""

import difflib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from detent.config.readers import check_label
from detent.errors import BreakerNotFound, ConfigError, StoreUnavailable
from detent.events import BreakerClosed, BreakerOpened, Bus
from detent.model.access import Action, Target
from detent.model.breaker import Breaker
from detent.model.circuit import REASON_LIMIT, Circuit, Phase, force_open, reset
from detent.model.durations import Duration, parse_duration
from detent.model.retry import MAX_DELAY
from detent.model.text import storable
from detent.protection import Protection
from detent.spi.breakers import BreakerRow, BreakerStore
from detent.spi.notifier import BreakerHint, Notifier

# How often a change is tried while nodes write what they counted.
TURNS: Final = 20


class BreakerInfo(NamedTuple):
    """A circuit breaker as people see it."""

    name: str
    phase: Phase
    since: datetime | None
    """When the phase began; None for one that never changed."""
    failed: int
    total: int
    """How many of the calls that are remembered failed, and how many these are."""
    half_open_at: datetime | None
    """When trials begin, or began. None while it is open: not before it is reset."""
    reopened: int
    """How often it opened again since it was closed."""
    reason: str | None
    """Why it opened: what the last failure was, or what a person said."""
    forced: bool
    """Whether a person opened it."""
    trials_running: int
    trials_passed: int


class Breakers:
    """All circuit breakers of a store."""

    def __init__(
        self,
        store: BreakerStore,
        notifier: Notifier | None,
        *,
        bus: Bus,
        declared: Mapping[str, Breaker],
        protection: Protection | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._bus = bus
        self._declared = declared
        self._protection = protection or Protection()

    async def list(self) -> list[BreakerInfo]:
        """Return all breakers that are declared here or were ever used, by name."""
        stored = {row.name: row.circuit for row in await self._store.breakers()}
        circuits = {**{name: Circuit() for name in self._declared}, **stored}
        return [_info(name, circuits[name]) for name in sorted(circuits)]

    async def get(self, name: str) -> BreakerInfo:
        """Return one breaker, or raise `BreakerNotFound`."""
        check_label("breaker", name)
        row = (await self._store.load_breakers([name])).rows.get(name)
        if row is None and name not in self._declared:
            raise await self._unknown(name)
        return _info(name, Circuit() if row is None else row.circuit)

    async def open(
        self, name: str, *, lasting: Duration | None = None, reason: str | None = None
    ) -> BreakerInfo:
        """Stop all calls under a breaker, for a time or until it is reset; what runs goes on.

        After the time trials begin, as if it had opened by itself.
        """
        length = None if lasting is None else _read_lasting(lasting)
        if reason is not None and not isinstance(reason, str):
            raise ConfigError(f"reason = {reason!r}: must be a text, or None")
        why = None if reason is None else storable(reason, REASON_LIMIT)
        info = await self._change(name, lambda c, now: force_open(c, now, length, why))
        wait = None if length is None else length.total_seconds()
        self._bus.emit(BreakerOpened(name, None, 0, 0, why, wait))
        return info

    async def reset(self, name: str) -> BreakerInfo:
        """Close a breaker and forget what it has counted.

        Jobs that wait because of it still wait for the time that they were given.
        """
        info = await self._change(name, reset)
        self._bus.emit(BreakerClosed(name, None))
        return info

    async def _change(
        self, name: str, change: Callable[[Circuit, datetime], Circuit]
    ) -> BreakerInfo:
        check_label("breaker", name)
        await self._protection.permit(Action.CONFIGURE, Target(kind="breaker", name=name))
        for _ in range(TURNS):
            now, rows = await self._store.load_breakers([name])
            row = rows.get(name)
            if row is None and name not in self._declared:
                raise await self._unknown(name)
            version, circuit = (0, Circuit()) if row is None else (row.version, row.circuit)
            changed = change(circuit, now)
            if await self._store.save_breakers([BreakerRow.of(name, version + 1, changed)]):
                if self._notifier is not None:
                    self._notifier.publish([BreakerHint(name)])
                return _info(name, changed)
        raise StoreUnavailable(f"the breaker {name!r} is being written all the time; try again")

    async def _unknown(self, name: str) -> BreakerNotFound:
        names = [info.name for info in await self.list()]
        nearest = difflib.get_close_matches(name, names, n=1)
        return BreakerNotFound(name, nearest[0] if nearest else None)


def _read_lasting(value: Duration) -> timedelta:
    try:
        length = parse_duration(value)
    except ValueError as error:
        raise ConfigError(f"lasting = {value!r}: {error}") from None
    if not timedelta(0) < length <= MAX_DELAY:
        raise ConfigError(f"lasting = {value}: must be above 0, at most 24 hours")
    return length


def _info(name: str, circuit: Circuit) -> BreakerInfo:
    return BreakerInfo(
        name,
        circuit.phase,
        circuit.since,
        circuit.calls.failed,
        circuit.calls.total,
        circuit.half_open_at,
        circuit.reopened,
        circuit.reason,
        circuit.forced,
        len(circuit.permits),
        circuit.passed,
    )
