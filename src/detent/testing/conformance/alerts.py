"""What `AlertStore` promises: failures of one kind are counted, and told of once."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from detent.model.fingerprint import SUMMARY, Fingerprint
from detent.spi.outbox import ALERT, Failures
from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR, new_id
from detent.testing.conformance.outbox import NO_TIME, SINK, ended, taken, waiting
from detent.testing.conformance.steps import now_of

MOST = 20


def failures(count: int = 1, message: str = "no route", task: str = "shop.send") -> Failures:
    """Return failures of one kind."""
    mark = Fingerprint(message.replace(" ", "-"), "OSError", message, "shop/mail.py:send")
    return Failures(task, mark, new_id(), new_id(), count)


class AlertConformance:
    """Counting, telling once, acknowledging."""

    async def test_failures_of_one_kind_are_one_alert(self, store: Store) -> None:
        first, second = failures(3), failures(4)
        assert await store.raise_alerts([first], 24 * HOUR, [SINK], MOST) == 1
        assert await store.raise_alerts([second], 24 * HOUR, [SINK], MOST) == 0
        (alert,) = await store.alerts(10)
        assert (alert.task, alert.times) == ("shop.send", 7)
        assert (alert.first_job, alert.last_job) == (first.first_job, second.last_job)
        assert (alert.type, alert.message, alert.frame) == (
            "OSError",
            "no route",
            "shop/mail.py:send",
        )
        assert alert.first_at <= alert.last_at <= await now_of(store)
        assert alert.window_start <= alert.first_at < alert.window_start + 24 * HOUR
        assert (alert.delivered_at, alert.acked_at, alert.acked_by) == (None, None, None)
        assert await store.get_alert(alert.id) == alert
        (event,) = await waiting(store)
        assert (event.kind, event.alert, event.job) == (ALERT, alert.id, first.first_job)
        assert (event.task, event.node, event.error) == ("shop.send", None, None)

    async def test_other_tasks_and_errors_are_other_alerts(self, store: Store) -> None:
        several = [failures(), failures(message="no disk"), failures(task="shop.ship")]
        assert await store.raise_alerts(several, 24 * HOUR, [SINK, "log"], MOST) == 3
        assert len(await store.alerts(10)) == 3
        assert [len(await waiting(store, sink)) for sink in (SINK, "log")] == [3, 3]
        assert [alert.task for alert in await store.alerts(10, task="shop.ship")] == ["shop.ship"]
        assert len(await store.alerts(2)) == 2

    async def test_another_window_is_another_alert(self, store: Store) -> None:
        # So short that no two calls fall into the same.
        tick = timedelta(microseconds=1)
        if await now_of(store) == await now_of(store):
            pytest.skip("its clock stands still")
        assert await store.raise_alerts([failures()], tick, [SINK], MOST) == 1
        assert await store.raise_alerts([failures()], tick, [SINK], MOST) == 1
        newest, oldest = await store.alerts(10)
        assert (newest.times, oldest.times) == (1, 1)
        assert newest.window_start > oldest.window_start

    async def test_a_window_begins_with_the_first_failure(self, store: Store) -> None:
        before = await now_of(store)
        await store.raise_alerts([failures()], 24 * HOUR, [SINK], MOST)
        (alert,) = await store.alerts(10)
        assert before <= alert.window_start == alert.first_at
        assert await store.raise_alerts([failures()], 24 * HOUR, [SINK], MOST) == 0
        (again,) = await store.alerts(10)
        assert (again.window_start, again.times) == (alert.window_start, 2)

    async def test_too_many_kinds_of_a_task_are_one_summary(self, store: Store) -> None:
        """A name in the message makes each failure one of a kind."""
        first = [failures(message=f"no user {number:02}") for number in range(3)]
        rest = [failures(2, message=f"no user {number:02}") for number in range(3, 60)]
        other = failures(task="shop.ship")
        assert await store.raise_alerts([*first[:2], other], 24 * HOUR, [SINK], 4) == 3
        assert await store.raise_alerts([first[2], *rest[:30]], 24 * HOUR, [SINK], 4) == 3
        assert await store.raise_alerts([*rest[30:], *first], 24 * HOUR, [SINK], 4) == 0
        assert len(await waiting(store)) == 6
        alerts = await store.alerts(100, task="shop.send")
        (beyond,) = (alert for alert in alerts if alert.fingerprint == SUMMARY)
        assert len(alerts) == 5
        assert "more than 4 kinds" in beyond.message
        assert sum(alert.times for alert in alerts) == 2 * 3 + 2 * 57
        assert beyond.times == 2 * 56
        assert beyond.first_job in {each.first_job for each in rest}

    async def test_of_many_at_once_one_tells(self, store: Store) -> None:
        several = [failures(), failures(message="no disk")]

        def one(number: int) -> Awaitable[int]:
            order = several if number % 2 else several[::-1]
            return store.raise_alerts(order, 24 * HOUR, [SINK], MOST)

        assert sum(await asyncio.gather(*map(one, range(8)))) == 2
        assert [alert.times for alert in await store.alerts(10)] == [8, 8]
        assert len(await waiting(store)) == 2

    async def test_a_delivered_alert_says_so(self, store: Store) -> None:
        await store.raise_alerts([failures()], 24 * HOUR, [SINK, "log"], MOST)
        (event,) = await taken(store)
        await store.events_delivered([event])
        (alert,) = await store.alerts(10)
        assert alert.delivered_at is not None
        (event,) = (await store.take_events({"log": 10}, HOUR)).events
        await store.events_delivered([event])
        (again,) = await store.alerts(10)
        assert again.delivered_at == alert.delivered_at, "the first one stands"

    async def test_somebody_acknowledges_it(self, store: Store) -> None:
        await store.raise_alerts([failures()], 24 * HOUR, [], MOST)
        (alert,) = await store.alerts(10, acked=False)
        acked = await store.ack_alert(alert.id, "ada")
        assert acked is not None
        assert acked.acked_by == "ada"
        assert acked.acked_at is not None
        assert await store.ack_alert(alert.id, "bob") == acked, "the first one stands"
        assert await store.alerts(10, acked=True) == [acked]
        assert await store.alerts(10, acked=False) == []
        assert await store.ack_alert(alert.id + 1, "ada") is None
        assert await store.get_alert(alert.id + 1) is None

    async def test_what_became_of_it_is_kept(self, store: Store) -> None:
        await store.raise_alerts([failures()], 24 * HOUR, ["hook", "log", "pager"], MOST)
        (alert,) = await store.alerts(10)
        assert alert.trail == ()
        began = await now_of(store)
        hook, log, pager = (await store.take_events({"hook": 1, "log": 1, "pager": 1}, HOUR)).events
        await store.put_off_event(hook, None, "HTTP 404 \U0001f480")
        await store.put_off_event(log, NO_TIME, "not now")
        await store.events_delivered([pager])
        assert await store.retry_events(None, None, 10) == 1
        events = (await store.take_events({"hook": 1, "log": 1}, HOUR)).events
        assert await store.events_delivered(events) == 2
        await store.ack_alert(alert.id, "ada")
        await store.ack_alert(alert.id, "bob")
        found = await store.get_alert(alert.id)
        assert found is not None
        assert [step[1:] for step in found.trail] == [
            ("undeliverable", "hook", "HTTP 404 \U0001f480"),
            ("told", "pager", None),
            ("retried", "hook", None),
            ("told", "hook", None),
            ("told", "log", "in try 2"),
            ("acked", "ada", None),
        ]
        moments = [step.at for step in found.trail]
        assert moments == sorted(moments)
        assert began <= moments[0] <= moments[-1] <= await now_of(store)
        assert await store.alerts(10) == [found]

    async def test_a_discarded_alert_says_so(self, store: Store) -> None:
        await store.raise_alerts([failures()], 24 * HOUR, ["hook", "log"], MOST)
        assert await store.discard_events(None, "hook", 10) == 1
        (alert,) = await store.alerts(10)
        assert [step[1:] for step in alert.trail] == [("discarded", "hook", None)]
        assert alert.delivered_at is None

    async def test_an_event_of_no_alert_leaves_no_trail(self, store: Store) -> None:
        await store.raise_alerts([failures()], 24 * HOUR, [], MOST)
        await ended(store, 2)
        first, second = await taken(store)
        await store.put_off_event(first, None, "HTTP 404")
        await store.events_delivered([second])
        await store.retry_events(None, None, 10)
        assert [alert.trail for alert in await store.alerts(10)] == [()]

    async def test_old_alerts_are_removed(self, store: Store) -> None:
        await store.raise_alerts([failures()], 24 * HOUR, [], MOST)
        assert await store.prune_events(NO_TIME, HOUR, 10) == 0
        assert await store.prune_events(NO_TIME, NO_TIME, 10) == 1
        assert await store.alerts(10) == []
