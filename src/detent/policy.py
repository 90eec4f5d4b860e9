"""Which tasks a node may run: names that are allowed, names that are not."""

import re
from collections.abc import Sequence
from fnmatch import translate

from detent.config import PolicyConfig
from detent.errors import ConfigError
from detent.events import Bus, TaskDenied
from detent.model.outcome import Ending, Outcome
from detent.spi.guard import GuardedAttempt, GuardedTask


class PolicyGuard:
    """Sends jobs back, uncharged, whose task this node may not run."""

    def __init__(self, config: PolicyConfig, bus: Bus) -> None:
        self._config = config
        self._bus = bus
        self._allow = _compiled(config.allow)
        self._deny = _compiled(config.deny)
        self._rules: dict[str, str | None] = {}
        self._refusal = Outcome(Ending.SNOOZED, wait=config.delay)

    async def admit(self, attempt: GuardedAttempt, task: GuardedTask, /) -> Outcome | None:
        """See `Guard.admit`."""
        if task.name not in self._rules:
            rule = self._rules[task.name] = self.rule_against(task.name)
            if rule is not None:
                delay = self._config.delay.total_seconds()
                denied = TaskDenied(attempt.job_id, task.name, attempt.node_id, rule, delay)
                self._bus.emit(denied)
        return None if self._rules[task.name] is None else self._refusal

    def ended(self, attempt: GuardedAttempt, outcome: Outcome, /) -> None:
        """See `Guard.ended`; nothing follows from it."""

    def rule_against(self, task: str) -> str | None:
        """Return the setting that forbids a task, or None."""
        for pattern, compiled in self._deny:
            if compiled.match(task):
                return f"[policy] deny has {pattern!r}"
        if self._allow and not any(compiled.match(task) for _, compiled in self._allow):
            return "no pattern of [policy] allow fits"
        return None


def make_policy(config: PolicyConfig, bus: Bus, tasks: Sequence[str]) -> PolicyGuard | None:
    """Return the guard of a node; None when it may run everything.

    With `strict` that has to be said: a node that allows nothing by name is refused.
    """
    if config.strict and not config.allow:
        some = ", ".join(f'"{name}"' for name in sorted(tasks)[:3]) or '"shop.*"'
        raise ConfigError(
            "[policy] strict = true: allow is empty, so this node could run nothing; name its "
            f'tasks, such as allow = [{some}], or allow everything with allow = ["*"]'
        )
    return PolicyGuard(config, bus) if config.allow or config.deny else None


def _compiled(patterns: Sequence[str]) -> list[tuple[str, re.Pattern[str]]]:
    # As fnmatchcase, compiled once: upper and lower case are different tasks.
    return [(pattern, re.compile(translate(pattern))) for pattern in patterns]
