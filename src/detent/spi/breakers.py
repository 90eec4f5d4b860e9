"""What a store promises about circuit breakers: their state, and one writer at a time for each."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, Self

from detent.model.calls import Calls, Slice
from detent.model.circuit import Circuit, Phase


class BreakerRow(NamedTuple):
    """A breaker as it is stored."""

    name: str
    version: int
    """One more with every write."""
    phase: str
    since: datetime | None
    half_open_at: datetime | None
    body: str
    """All the rest, as JSON."""

    @classmethod
    def of(cls, name: str, version: int, circuit: Circuit) -> Self:
        """Return a circuit as it is stored."""
        body = {
            "epoch": circuit.epoch,
            "last": circuit.calls.last,
            "slices": circuit.calls.slices,
            "reopened": circuit.reopened,
            "forced": circuit.forced,
            "reason": circuit.reason,
            "permits": {key: until.timestamp() for key, until in circuit.permits.items()},
            "passed": circuit.passed,
        }
        text = json.dumps({key: value for key, value in body.items() if value})
        phase = str(circuit.phase)
        return cls(name, version, phase, circuit.since, circuit.half_open_at, text)

    @property
    def circuit(self) -> Circuit:
        """The circuit that is stored; what this version cannot read of it counts as nothing."""
        try:
            body = json.loads(self.body)
            calls = Calls(body.get("last", ""), tuple(Slice(*s) for s in body.get("slices", ())))
            return Circuit(
                phase=Phase(self.phase),
                epoch=body.get("epoch", 0),
                since=self.since,
                calls=calls,
                half_open_at=self.half_open_at,
                reopened=body.get("reopened", 0),
                forced=body.get("forced", False),
                reason=body.get("reason"),
                permits=_moments(body.get("permits", {})),
                passed=body.get("passed", 0),
            )
        except (ValueError, TypeError, AttributeError):
            # The version goes on, so nothing that is on its way counts by mistake.
            return Circuit(epoch=self.version)


class BreakersNow(NamedTuple):
    """What is known about some breakers, and the store's now."""

    now: datetime
    rows: Mapping[str, BreakerRow]
    """Those that exist, by name."""


class BreakerStore(Protocol):
    """Keeps the state of circuit breakers; what it means is `detent.model.circuit`."""

    async def load_breakers(self, names: Sequence[str]) -> BreakersNow:
        """Return those of `names` that exist."""

    async def save_breakers(self, rows: Sequence[BreakerRow]) -> list[str]:
        """Write each row whose version is one more than the stored one; return their names.

        A breaker that does not exist has the version 0. Of those who write the same version one
        succeeds, and the others change nothing. No name is given twice.
        """

    async def breakers(self) -> list[BreakerRow]:
        """Return all breakers, by name."""


def _moments(stamps: Mapping[str, Any]) -> dict[str, datetime]:
    return {key: datetime.fromtimestamp(stamp, UTC) for key, stamp in stamps.items()}
