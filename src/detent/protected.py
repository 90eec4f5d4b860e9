"""The part of an app that keeps secrets: who may do what, what is encrypted, what is redacted."""

import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

from detent.access import Access, AccessGuard, Rule
from detent.config import Config
from detent.errors import ConfigError
from detent.firing_seal import FiringSeal
from detent.foundation import Foundation
from detent.guarded import MakeGuard
from detent.model.failure import Sanitizer
from detent.policy import make_policy
from detent.protection import Protection, check_keys, open_sealing, read_redaction
from detent.signature import accepts
from detent.spi.guard import Guard
from detent.spi.sealing import KeyProvider, Sealing
from detent.tasks import Task
from detent.views import Views

RuleFunction = TypeVar("RuleFunction", bound=Rule)
SanitizerFunction = TypeVar("SanitizerFunction", bound=Sanitizer)


class Protected(Foundation):
    """What an `App` offers to those who must not tell everything to everybody."""

    _guard_makers: list[MakeGuard]

    def __init__(self) -> None:
        super().__init__()
        self._sanitizer: Sanitizer | None = None
        self._made_protection: Protection | None = None
        self._guard_makers += [self._policy_guard, self._access_guard]

    def authorize(self, rule: RuleFunction) -> RuleFunction:
        """Let `def may(principal, action, target) -> bool` decide who may do what.

        It is asked before a job is enqueued, run, canceled, paused, resumed, retried, rescheduled,
        deleted or read, and before a schedule is created, changed or fired by hand; it may be
        async. Who it says no to gets `NotAllowed`; a job whose principal may not run it fails
        without a retry.
        """
        if not accepts(rule, "principal", "action", "target"):
            raise ConfigError(
                f"app.authorize({rule!r}): must be a function: def may(principal, action, target)"
            )
        if self._protection.access is not None:
            raise ConfigError("@app.authorize: there is a rule already, and there can be only one")
        self._protection.access = Access(rule)
        self._protection.active = True
        return rule

    def sanitizer(self, function: SanitizerFunction) -> SanitizerFunction:
        """Let `def clean(failure) -> failure` change errors before they are stored or told.

        A failure has `type`, `message` and `traceback`; what `[redaction]` says is done before. If
        the function raises, only the type is kept.
        """
        if not accepts(function, "failure") or inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"app.sanitizer({function!r}): must be a function: def clean(failure), not async"
            )
        self._sanitizer = function
        return function

    def encryption(self, *, provider: KeyProvider) -> None:
        """Take keys from a provider; those of `[encryption] keys` still open what they sealed."""
        current, find = (getattr(provider, name, None) for name in ("current", "find"))
        if not (accepts(current) and accepts(find, "key_id")):
            raise ConfigError(f"app.encryption(provider={provider!r}): has no current() and find()")
        protection = self._protection
        protection.sealing = open_sealing(self.config.encryption, self._runtime, provider)
        protection.views = self._views(protection.sealing)
        protection.active = True

    @property
    def _protection(self) -> Protection:
        """What new and known jobs pass through; made when the settings are known."""
        if self._made_protection is None:
            with self._first_use.lock:
                if self._made_protection is None:
                    self._made_protection = self._make_protection()
        return self._made_protection

    def _make_protection(self) -> Protection:
        encryption = self.config.encryption
        sealing = open_sealing(encryption, self._runtime) if encryption.keys else None
        made = Protection(self.config.limits, self._views(sealing))
        made.sealing = sealing
        made.everything = encryption.enabled
        made.active = sealing is not None or encryption.enabled
        made.call = self._call
        return made

    def _views(self, sealing: Sealing | None) -> Views:
        return Views(sealing, read_redaction(self.config.redaction))

    def _wants_encryption(self, task: Task[..., Any]) -> None:
        """Take note of a task that was declared as encrypted."""
        if task.options_declared.encrypted:
            self._protection.active = True

    def _protected_parts(self, tasks: Iterable[Task[..., Any]]) -> dict[str, Any]:
        """Return what a node needs; a mistake in the keys is told before it starts."""
        protection, redaction = self._protection, read_redaction(self.config.redaction)
        encrypted = [task.name for task in tasks if task.options_declared.encrypted]
        check_keys(self.config.encryption, protection.sealing, encrypted[0] if encrypted else None)
        return {
            "sealing": protection.sealing,
            "seal": FiringSeal(protection, self.tasks, self.client.renewed),
            "clean": redaction.clean if redaction.cleans else None,
            "sanitizer": self._sanitizer,
        }

    def _policy_guard(self, config: Config) -> Guard | None:
        return make_policy(config.policy, self.bus, [task.name for task in self.tasks])

    def _access_guard(self, _config: Config) -> Guard | None:
        access = self._protection.access
        return None if access is None else AccessGuard(access)
