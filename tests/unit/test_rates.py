"""If these fail, somebody is let in who should wait, or a store is asked for everybody alone."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent import App, ConfigError, StoreUnavailable
from detent.config import Config, RateLimitConfig
from detent.model.rates import Algorithm, Rate
from detent.rates import TIDY_AT, HybridLimiter, StrictLimiter
from detent.spi.rates import RateAsk, RateVerdict
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

TEN = Rate(10, burst=10)


class Counted:
    """A rate store that notes how it was asked."""

    def __init__(self, stage: Stage) -> None:
        self._store = stage.store
        self.asked = list[list[str]]()
        self.broken = False

    async def take(self, asks: Sequence[RateAsk]) -> list[RateVerdict]:
        self.asked.append([ask.name for ask in asks])
        if self.broken:
            raise StoreUnavailable("gone")
        return await self._store.take(asks)

    async def forget_rates(self, idle_seconds: float, limit: int, term: Any = None) -> int:
        return await self._store.forget_rates(idle_seconds, limit, term)


@in_virtual_time
async def test_a_strict_limiter_is_exact_across_processes() -> None:
    stage = Stage()
    limiters = [StrictLimiter(stage.store) for _ in range(4)]
    asks = [limiter.ask(RateAsk("api", TEN)) for limiter in limiters for _ in range(5)]
    verdicts = await asyncio.gather(*asks)
    assert sum(verdict.granted for verdict in verdicts) == 10
    refused = next(verdict for verdict in verdicts if not verdict.granted)
    await asyncio.sleep(refused.retry_after)
    assert (await limiters[0].ask(RateAsk("api", TEN))).granted


@in_virtual_time
async def test_what_is_asked_at_once_is_asked_together() -> None:
    store = Counted(Stage())
    limiter = StrictLimiter(store)
    given_up = asyncio.ensure_future(limiter.ask(RateAsk("c", TEN)))
    waiting = [asyncio.ensure_future(limiter.ask(RateAsk(name, TEN))) for name in "aab"]
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(*waiting)
    assert store.asked[0] == ["a", "a", "b"], "nothing is used up for who no longer waits"
    await limiter.ask(RateAsk("a", TEN))
    assert len(store.asked) == 2


@in_virtual_time
async def test_everybody_hears_of_trouble_and_the_next_ask_is_a_new_one() -> None:
    store = Counted(Stage())
    store.broken = True
    limiter = StrictLimiter(store)
    answers = await asyncio.gather(
        *(limiter.ask(RateAsk("a", TEN)) for _ in range(3)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    store.broken = False
    assert (await limiter.ask(RateAsk("a", TEN))).granted


@in_virtual_time
async def test_a_hybrid_limiter_counts_people_here_and_all_else_in_the_store() -> None:
    stage = Stage()
    store = Counted(stage)
    limiter = HybridLimiter(StrictLimiter(store), stage.runtime.monotonic)
    window = Rate(2, timedelta(seconds=10), algorithm=Algorithm.WINDOW)
    for name in ("user:ada", "ip:10.0.0.1"):
        verdicts = [await limiter.ask(RateAsk(name, window)) for _ in range(3)]
        assert [verdict.granted for verdict in verdicts] == [True, True, False]
        assert verdicts[2].retry_after == pytest.approx(10)
    assert store.asked == []
    for name in ("all", "tenant:7", "users"):
        assert (await limiter.ask(RateAsk(name, TEN))).remaining == 9
    assert store.asked == [["all"], ["tenant:7"], ["users"]]
    await asyncio.sleep(10)
    assert (await limiter.ask(RateAsk("user:ada", window))).granted


@in_virtual_time
async def test_people_who_left_are_forgotten() -> None:
    stage = Stage()
    limiter = HybridLimiter(StrictLimiter(stage.store), stage.runtime.monotonic)
    for number in range(TIDY_AT - 1):
        await limiter.ask(RateAsk(f"user:{number}", TEN))
    await asyncio.sleep(2)
    await limiter.ask(RateAsk("user:late", TEN))
    assert list(limiter._kept) == ["user:late"]


@in_virtual_time
async def test_an_ask_that_could_never_be_granted_is_a_mistake() -> None:
    stage = Stage()
    strict = StrictLimiter(stage.store)
    for limiter in (strict, HybridLimiter(strict, stage.runtime.monotonic)):
        for name, count in (("a", 11), ("user:a", 0), ("a", -1), ("user:a", 11)):
            with pytest.raises(ConfigError, match=f"rate '{name}': asked for {count}, must be 1"):
                await limiter.ask(RateAsk(name, TEN, count))


@pytest.mark.parametrize("mode, kind", [("hybrid", HybridLimiter), ("strict", StrictLimiter)])
def test_the_settings_say_which(mode: str, kind: type) -> None:
    app = App("memory://", config=replace(Config(), rate_limit=RateLimitConfig(mode=mode)))
    assert type(app.rate_limiter()) is kind
    assert app.rate_limiter() is app.rate_limiter()


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[rate_limit\] mode = 'fast'"):
        RateLimitConfig(mode="fast")


def test_one_limiter_serves_several_event_loops() -> None:
    app = App("memory://", config=replace(Config(), rate_limit=RateLimitConfig(mode="strict")))
    limiter = app.rate_limiter()
    for left in (9, 8):
        assert asyncio.run(limiter.ask(RateAsk("a", TEN))).remaining == left


@pytest.mark.parametrize("name", ["", None, 5, "a\x00b", "x" * 256])
@pytest.mark.parametrize("mode", ["strict", "hybrid"])
@in_virtual_time
async def test_a_name_that_cannot_be_stored_is_refused(mode: str, name: Any) -> None:
    limiter = Stage(replace(Config(), rate_limit=RateLimitConfig(mode=mode))).app.rate_limiter()
    with pytest.raises(ConfigError, match=r"rate .*: must be 1 to 255 printable characters"):
        await limiter.ask(RateAsk(name, Rate(10, timedelta(seconds=1))))


@pytest.mark.parametrize("wanted", [1.5, "1", None, True])
@pytest.mark.parametrize("name", ["user:42", "gateway"])
@in_virtual_time
async def test_only_whole_numbers_can_be_asked_for(name: str, wanted: Any) -> None:
    limiter = Stage().app.rate_limiter()
    with pytest.raises(ConfigError, match=r"asked for .*, must be a whole number"):
        await limiter.ask(RateAsk(name, Rate(10, timedelta(seconds=1)), wanted))
