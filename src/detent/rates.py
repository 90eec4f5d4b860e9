"""Rate limiters: who may do something now, and who has to wait.

A `StrictLimiter` leaves every decision to the store: exact, however many processes ask. A
`HybridLimiter` decides about the many names of single people by itself, for this process alone, and
asks the store about the few that must be exact.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from detent.config.readers import check_label
from detent.errors import ConfigError
from detent.model.rates import NOTHING_TAKEN, Grants, Rate, matters_until, take
from detent.spi.rates import RateAsk, RateStore, RateVerdict

LOCAL_SCOPES: Final = ("user", "ip")
Waiting = list[tuple[RateAsk, asyncio.Future[RateVerdict]]]
# How many names are remembered before those are forgotten that are full again.
TIDY_AT: Final = 10_000


class StrictLimiter:
    """Leaves everything to the store. What is asked in one turn of the event loop goes together."""

    def __init__(self, store: RateStore) -> None:
        self._store = store
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, Waiting] = WeakKeyDictionary()
        # An event loop holds its tasks only weakly.
        self._asking: set[asyncio.Task[list[RateVerdict]]] = set()

    async def ask(self, ask: RateAsk) -> RateVerdict:
        """See `RateLimiter.ask`."""
        check_ask(ask)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[RateVerdict] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((ask, answer))
        if len(waiting) == 1:
            loop.call_soon(self._send, loop)
        return await answer

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        # Who no longer waits does not use up what others could have.
        waiting = [entry for entry in self._waiting.pop(loop, ()) if not entry[1].done()]
        if waiting:
            task = loop.create_task(self._take([ask for ask, _ in waiting]))
            self._asking.add(task)
            task.add_done_callback(lambda asked: self._answer(asked, waiting))

    async def _take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        return await self._store.take(asks)

    def _answer(self, asked: asyncio.Task[list[RateVerdict]], waiting: Waiting) -> None:
        """Hand everybody his verdict, or whatever went wrong."""
        self._asking.discard(asked)
        error = None if asked.cancelled() else asked.exception()
        for index, (_, answer) in enumerate(waiting):
            if answer.done():
                continue
            if asked.cancelled():
                answer.cancel()
            elif error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(asked.result()[index])


class HybridLimiter:
    """Decides about names such as `user:42` and `ip:10.0.0.1` here, and asks about all others.

    Each process grants the whole rate to such a name: somebody who is served by all of them can
    have as many times more. For what must be exact, use another name or the strict limiter.
    """

    def __init__(
        self,
        exact: StrictLimiter,
        monotonic: Callable[[], float],
        local_scopes: Sequence[str] = LOCAL_SCOPES,
    ) -> None:
        self._exact = exact
        self._monotonic = monotonic
        self._scopes = frozenset(local_scopes)
        self._kept: dict[str, tuple[Rate, Grants]] = {}
        self._tidy_at = TIDY_AT

    async def ask(self, ask: RateAsk) -> RateVerdict:
        """See `RateLimiter.ask`."""
        check_ask(ask)
        scope, colon, _ = ask.name.partition(":")
        if not colon or scope not in self._scopes:
            return await self._exact.ask(ask)
        now = self._monotonic()
        _, grants = self._kept.get(ask.name, (ask.rate, NOTHING_TAKEN))
        taken = take(ask.rate, grants, ask.wanted, now)
        self._kept[ask.name] = (ask.rate, taken.grants)
        if len(self._kept) >= self._tidy_at:
            self._tidy(now)
        return RateVerdict(taken.granted, taken.remaining, taken.retry_after)

    def _tidy(self, now: float) -> None:
        """Forget the names that are as if nobody had ever used them."""
        self._kept = {name: kept for name, kept in self._kept.items() if matters_until(*kept) > now}
        # Not with every ask from now on, when nearly all are in use.
        self._tidy_at = max(TIDY_AT, 2 * len(self._kept))


def check_ask(ask: RateAsk) -> None:
    """Refuse an ask that could never be granted."""
    check_label("rate", ask.name)
    if type(ask.wanted) is not int:
        raise ConfigError(f"rate {ask.name!r}: asked for {ask.wanted!r}, must be a whole number")
    if not 1 <= ask.wanted <= ask.rate.most:
        raise ConfigError(
            f"rate {ask.name!r}: asked for {ask.wanted}, must be 1 to {ask.rate.most} (its most)"
        )
