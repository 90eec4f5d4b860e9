"""How long ended jobs stay and what becomes of them: without it nothing would ever leave.

A rule can be said for a state, and again for a state in one queue; the narrower one wins, and
what it leaves open (its action) the wider one says.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final

LONGEST: Final = timedelta(days=36_500)
"""The longest time that can be said; longer than that is for ever."""


class Action(StrEnum):
    """What happens to a job whose time is over."""

    DELETE = "delete"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Rule:
    """How long an ended job stays, and what happens to it then."""

    keep: timedelta | None
    """Counted from its end; None is for ever."""
    action: Action | None = None
    """None leaves it to the wider rule."""

    def within(self, wider: "Rule") -> "Rule":
        """Return this rule with what it leaves open taken from a wider one."""
        return self if self.action is not None else replace(self, action=wider.action)

    def due(self, age: timedelta) -> bool:
        """Whether the time of a job that ended so long ago is over."""
        return self.keep is not None and age >= self.keep

    @property
    def archives(self) -> bool:
        """Whether the job is archived, and not simply deleted."""
        return self.action is Action.ARCHIVE


@dataclass(frozen=True, slots=True)
class StateRules:
    """What holds for the jobs that ended in one state."""

    usual: Rule
    """For all queues that have no rule of their own."""
    queues: Mapping[str, Rule] = field(default_factory=dict, hash=False)

    @classmethod
    def compose(
        cls, usual: Rule, queues: Mapping[str, Rule], action: Action = Action.DELETE
    ) -> "StateRules":
        """Return the rules complete: queues ask the usual rule, and that one asks `action`."""
        complete = usual.within(Rule(None, action))
        return cls(complete, {name: rule.within(complete) for name, rule in queues.items()})

    def of(self, queue: str) -> Rule:
        """Return the rule for the jobs of a queue."""
        return self.queues.get(queue, self.usual)

    @property
    def shortest(self) -> timedelta | None:
        """The least that a job stays, whatever its queue; None when all stay for ever."""
        return min(self._times(), default=None)

    def _times(self) -> Iterator[timedelta]:
        for rule in (self.usual, *self.queues.values()):
            if rule.keep is not None:
                yield rule.keep
