"""How much of everything happens in one run of the chaos."""

from dataclasses import dataclass, field, fields
from typing import Final, Self


@dataclass(slots=True)
class Faults:
    """How often each thing is done."""

    kills: int = 0
    freezes: int = 0
    blackholes: int = 0
    hang_ups: int = 0
    terminations: int = 0
    restarts: int = 0

    def share_of(self, least: Self) -> float:
        """Return how much of `least` was done, from 0 to 1."""
        names = [each.name for each in fields(self)]
        done: int = sum(min(getattr(self, name), getattr(least, name)) for name in names)
        wanted: int = sum(getattr(least, name) for name in names)
        return done / wanted

    def scaled(self, share: float) -> Self:
        """Return so much of each, and of each at least one."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self)(**{name: max(round(count * share), 1) for name, count in counts.items()})

    def lacking(self, least: Self) -> list[str]:
        """Return what was not done as often as in `least`."""
        names = [each.name for each in fields(self)]
        return [name for name in names if getattr(self, name) < getattr(least, name)]


MANY: Final = Faults(kills=50, freezes=20, blackholes=5, hang_ups=5, terminations=5, restarts=5)
DEFAULT_LEASE: Final = 15.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: its size, its speed and its limits."""

    seed: int = 1
    jobs: int = 100_000
    nodes: int = 4
    concurrency: int = 100
    lease: float = 1.5
    longest: float = 900.0
    """Seconds after which it is given up, whatever is missing."""
    least: Faults = field(default_factory=lambda: MANY)

    def settings(self) -> dict[str, str]:
        """Return the environment of the nodes."""
        concurrency = {"DETENT_NODE_CONCURRENCY": str(self.concurrency)}
        if self.lease == DEFAULT_LEASE:
            return concurrency
        return concurrency | {
            "DETENT_CLUSTER_LEASE": f"{self.lease}s",
            "DETENT_CLUSTER_HEARTBEAT_INTERVAL": f"{self.lease / 3}s",
        }

    @property
    def pace(self) -> float:
        """How much longer everything takes than with the shortest lease."""
        return self.lease / 1.5

    @property
    def patience(self) -> float:
        """How long nothing may happen although jobs are left, in seconds."""
        return self.lease + 10.0

    @property
    def backlog(self) -> int:
        """How many jobs may wait: enough for the nodes, and more to come while things break."""
        return max(self.jobs // 5, 10 * self.concurrency)
