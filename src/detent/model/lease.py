"""When a node's lease is over: only after a time in which the node could have renewed it.

A lease that ends while the store is away says nothing about the node that holds it: no node could
renew. So the end of a lease needs a witness: a node whose heartbeats the store has answered for the
length of that lease, without a gap. After an outage no node has witnessed anything, and every lease
gets its whole length again, from the first answer on.

All moments are the store's, so a clock of the store that jumps is a gap like any other.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

# Two heartbeats that are further apart than this share of the lease have a gap between them. A
# lease is at least three heartbeats long: one that comes a little late makes no gap.
GAP: Final = 0.5


class Pulse(NamedTuple):
    """The heartbeats of a node as the store knows them."""

    heartbeat_at: datetime
    lease_until: datetime
    steady_since: datetime
    """Since when its heartbeats have had no gap."""

    @property
    def lease(self) -> timedelta:
        """How long its lease is."""
        return self.lease_until - self.heartbeat_at

    def is_steady(self, now: datetime) -> bool:
        """Tell whether the last heartbeat is so near that there is no gap until now."""
        return self.heartbeat_at <= now <= self.heartbeat_at + self.lease * GAP

    def renewed(self, now: datetime, lease: timedelta) -> "Pulse":
        """Return the pulse after one more heartbeat."""
        return Pulse(now, now + lease, self.steady_since if self.is_steady(now) else now)


def witnessed_since(pulses: Iterable[Pulse], now: datetime) -> datetime:
    """Return since when one of these nodes has seen the store answer; now, if none of them has."""
    return min((pulse.steady_since for pulse in pulses if pulse.is_steady(now)), default=now)


def ends_at(pulse: Pulse, witnessed: datetime) -> datetime:
    """Return when a lease is over, if it is not renewed and the witness stays."""
    return max(pulse.lease_until, witnessed + pulse.lease)
