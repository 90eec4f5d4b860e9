"""What was measured: every sample is kept, every question answered with a median and its spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One measurement of one subject. `foreign`: cores that others used meanwhile."""

    section: str
    case: str
    subject: str
    round: int
    values: Mapping[str, float]
    foreign: float


@dataclass(frozen=True)
class Failure:
    section: str
    case: str
    subject: str
    round: int
    reason: str


@dataclass(frozen=True)
class Spread:
    middle: float
    low: float
    high: float


def spread(values: Iterable[float]) -> Spread | None:
    numbers = list(values)
    return Spread(median(numbers), min(numbers), max(numbers)) if numbers else None


def percentile(values: Iterable[float], share: float) -> float:
    """Linear between the two nearest ranks."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass
class Results:
    samples: list[Sample] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def cases(self, section: str) -> list[str]:
        return list(dict.fromkeys(s.case for s in self.samples if s.section == section))

    def subjects(self, section: str, case: str) -> list[str]:
        found = [s.subject for s in self.samples if (s.section, s.case) == (section, case)]
        return list(dict.fromkeys(found))

    def of(self, section: str, case: str, subject: str, metric: str) -> dict[int, float]:
        """The values of one metric by round."""
        return {
            s.round: s.values[metric]
            for s in self.samples
            if (s.section, s.case, s.subject) == (section, case, subject) and metric in s.values
        }

    def spread(self, section: str, case: str, subject: str, metric: str) -> Spread | None:
        return spread(self.of(section, case, subject, metric).values())

    def ratio(self, section: str, case: str, over: str, under: str, metric: str) -> Spread | None:
        """`over` by `under`, round by round: what slowed one round slowed both."""
        top = self.of(section, case, over, metric)
        bottom = self.of(section, case, under, metric)
        return spread(top[r] / bottom[r] for r in top if bottom.get(r))

    def foreign(self, section: str) -> Spread | None:
        return spread(s.foreign for s in self.samples if s.section == section)

    def as_json(self) -> dict[str, Any]:
        return {
            "samples": [asdict(sample) for sample in self.samples],
            "failures": [asdict(failure) for failure in self.failures],
        }
