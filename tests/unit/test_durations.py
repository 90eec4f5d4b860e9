"""If these fail, a length of time means one thing here and another there, or is refused."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import Rate, Retry, RetryAfter, Snooze
from detent.config import NodeConfig
from detent.due import as_linger, as_timeout, read_length
from detent.errors import ConfigError
from detent.model.breaker import Breaker
from detent.model.durations import format_duration, parse_duration
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time
from detent.triggers import Interval

LENGTHS = st.integers(1, 86_399).map(lambda seconds: timedelta(seconds=seconds))


def forms(length: timedelta) -> list[Any]:
    """Return the ways to say a whole number of seconds."""
    seconds = round(length.total_seconds())
    return [length, seconds, float(seconds), str(seconds), f"{seconds}s", format_duration(length)]


@given(LENGTHS)
def test_numbers_texts_and_timedeltas_mean_the_same_everywhere(length: timedelta) -> None:
    for form in forms(length):
        assert parse_duration(form) == length
        assert as_timeout(form) == length
        assert read_length("f", "x", form) == length
        assert Retry(delay=form, max_delay=form) == Retry(delay=length, max_delay=length)
        assert Rate(1, form).per == length
        assert Interval(form) == Interval(length)
        assert (Snooze(form).wait, RetryAfter(form).wait) == (length, length)
        assert Breaker(wait=form).wait == length
        assert Breaker(max_wait=form, wait="1s").max_wait == length
        assert NodeConfig(drain_timeout=form).drain_timeout == length
        if length <= timedelta(minutes=1):
            assert as_linger(form) == length


@given(st.one_of(st.booleans(), st.none(), st.just("soon"), st.just(float("nan")), st.binary()))
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="must be a duration such as"):
        read_length("options", "delay", wrong)
    for make in (lambda: Retry(delay=wrong), lambda: Rate(1, wrong), lambda: Snooze(wrong)):
        with pytest.raises((TypeError, ValueError), match="must be a duration such as"):
            make()


@in_virtual_time
async def test_calls_take_them_too() -> None:
    stage = Stage()

    @stage.app.task(timeout="10m", heartbeat_timeout="5s")
    async def work() -> None: ...

    assert work.options_declared.timeout == timedelta(minutes=10)
    call = work.options(delay="1h30m", timeout=5, key="k", key_ttl="2d").bind()
    assert call.options.delay == timedelta(minutes=90)
    assert (call.options.timeout, call.options.key_ttl) == (timedelta(seconds=5), timedelta(days=2))
    job = await work.options(delay=60).enqueue()
    await stage.app.jobs.reschedule(job.id, delay="2h")
    info = await job.info()
    assert info.due_at - info.enqueued_at == timedelta(hours=2)
    async with stage.app.lock("door", ttl="30s", wait="1s"):
        pass


@in_virtual_time
async def test_lengths_of_nodes_and_breakers() -> None:
    stage = Stage()
    stage.app.breaker("api", wait="30s", window="1m")
    info = await stage.app.breakers.open("api", lasting="1h")
    assert info.half_open_at is not None
    assert info.since is not None
    assert info.half_open_at - info.since == timedelta(hours=1)
    async with stage.node():
        assert await stage.app.nodes.list(inactive_for="1d") == []
        assert len(await stage.app.nodes.list(inactive_for=0)) == 1
    for wrong in ("soon", -1, True):
        with pytest.raises(ConfigError, match="inactive_for"):
            await stage.app.nodes.list(inactive_for=wrong)
        with pytest.raises(ConfigError, match="lasting"):
            await stage.app.breakers.open("api", lasting=wrong)
