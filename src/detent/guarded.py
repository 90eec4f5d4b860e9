"""The part of an app that is about what stands around its calls: breakers, guards, rate limits."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict, Unpack

from detent.breakers import Breakers
from detent.config import Config
from detent.config.guards import STRICT
from detent.config.readers import check_label
from detent.errors import ConfigError
from detent.foundation import Foundation
from detent.model.breaker import Breaker
from detent.model.durations import Duration
from detent.rates import HybridLimiter, StrictLimiter
from detent.signature import accepts
from detent.spi.guard import Guard
from detent.spi.rates import RateLimiter
from detent.spi.resilience import Resilience
from detent.tasks import Task

MakeGuard = Callable[[Config], Guard | None]
_BREAKERS: Final = object()


class BreakerSettings(TypedDict, total=False):
    """The settings of `app.breaker(...)`: those of `Breaker`."""

    failure_rate: float
    window: int | timedelta | str
    minimum: int
    wait: Duration
    max_wait: Duration | None
    trials: int
    record: tuple[type[BaseException], ...]
    ignore: tuple[type[BaseException], ...]


class Guarded(Foundation):
    """What an `App` offers to keep calls from running when they should not."""

    def __init__(self) -> None:
        super().__init__()
        self._guard_makers: list[MakeGuard] = []
        """Each makes a guard for one node, or None when its topic is not used.

        They are asked in this order; the circuit breakers stand after all of them, so that a
        trial call is not spent on an attempt that another guard refuses.
        """
        self._breakers: dict[str, Breaker] = {}
        self._strategy: Any = _BREAKERS
        self._limiter: RateLimiter | None = None

    @property
    def breakers(self) -> Breakers:
        """All circuit breakers: look, open, reset."""
        store = self.store
        return Breakers(
            store,
            self._notifier,
            bus=self.bus,
            declared=self._breakers,
            protection=self._protection,
        )

    def breaker(
        self, name: str, settings: Breaker | None = None, /, **changes: Unpack[BreakerSettings]
    ) -> Breaker:
        """Declare a circuit breaker for `@app.task(breaker=name)`: one for all that call it.

        `settings` is a `Breaker`, such as `Breaker.external_api()`; whatever else is given holds
        instead of what stands there.
        """
        if settings is not None and not isinstance(settings, Breaker):
            raise ConfigError(f"breaker {name!r}: must be a Breaker(...), not {settings!r}")
        try:
            made = (settings or Breaker()).changed(**changes)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"breaker {name!r}: {error}") from error
        return self._add_breaker(check_label("breaker", name), made)

    def _add_breaker(self, name: str, breaker: Breaker) -> Breaker:
        if self._breakers.setdefault(name, breaker) != breaker:
            raise ConfigError(f"two breakers are named {name!r}; give one of them another name")
        return breaker

    def _breaker_of(self, task: str, given: Any) -> str | None:
        """Return the name of the breaker that a task was declared with."""
        if given is None or given is False:
            return None
        if isinstance(given, str):
            return check_label("breaker", given)
        if given is not True and not isinstance(given, Breaker):
            raise ConfigError(
                f"@app.task(breaker={given!r}): must be a name, a Breaker(...), or True for one "
                "of the task's own"
            )
        self._add_breaker(task, Breaker() if given is True else given)
        return task

    def resilience(self, strategy: Resilience | Callable[[], Resilience] | None) -> None:
        """Put a strategy of your own around all calls, instead of the circuit breakers.

        A class, or anything else that can be called without arguments, makes one for each node; an
        instance serves them all. None lets all calls pass.
        """
        is_one = not isinstance(strategy, type) and _is_strategy(strategy)
        if strategy is not None and not is_one and not callable(strategy):
            raise ConfigError(
                f"app.resilience({strategy!r}): has no before() and after() as in "
                "detent.spi.resilience, and makes no strategy"
            )
        self._strategy = (lambda: strategy) if is_one or strategy is None else strategy

    def rate_limiter(self) -> RateLimiter:
        """Return what answers "may I, now?", as `[rate_limit]` says; it serves one event loop."""
        if self._limiter is None:
            with self._first_use.lock:
                if self._limiter is None:
                    self._limiter = self._make_limiter()
        return self._limiter

    def _make_limiter(self) -> RateLimiter:
        strict = StrictLimiter(self.store)
        if self.config.rate_limit.mode == STRICT:
            return strict
        return HybridLimiter(strict, self._runtime.monotonic)

    # What a node is made from

    def _make_guards(self, config: Config) -> tuple[Guard, ...]:
        """Return the guards of one node."""
        made = (make(config) for make in self._guard_makers)
        return tuple(guard for guard in made if guard is not None)

    def _make_resilience(self) -> Resilience | None:
        """Return a strategy of the application's own, if it has one."""
        if self._strategy is _BREAKERS:
            return None
        made: Resilience | None = self._strategy()
        if made is not None and not _is_strategy(made):
            raise ConfigError(
                f"app.resilience(...): made {made!r}, without before() and after() as in "
                "detent.spi.resilience"
            )
        return made

    def _breakers_for(
        self, config: Config, tasks: Iterable[Task[..., Any]]
    ) -> Mapping[str, Breaker]:
        """Return the breakers of a node; refuse tasks whose breaker nobody declared."""
        for task in tasks:
            name = task.options_declared.breaker
            if name is not None and name not in self._breakers:
                nearest = difflib.get_close_matches(name, self._breakers, n=1)
                hint = f"did you mean {nearest[0]!r}?" if nearest else f"app.breaker({name!r})"
                raise ConfigError(
                    f"task {task.name!r}: its breaker {name!r} is not declared; {hint}"
                )
        is_used = config.breakers.enabled and self._strategy is _BREAKERS
        return self._breakers if is_used else {}


def _is_strategy(thing: object) -> bool:
    before, after = (getattr(thing, name, None) for name in ("before", "after"))
    # Nobody would await an async `after`, so it would never learn anything.
    fits = accepts(before, "call") and accepts(after, "call", "outcome")
    return fits and not inspect.iscoroutinefunction(after)
