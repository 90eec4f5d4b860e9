"""What `BreakerStore` promises: of those who write the same version, one succeeds."""

import asyncio
from datetime import timedelta

from detent.model.breaker import Breaker
from detent.model.circuit import Circuit, Phase, ask, count, force_open
from detent.spi.breakers import BreakerRow
from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR
from detent.testing.conformance.steps import now_of

NAME = "Zahlungs-API: größe"
OPEN = BreakerRow(NAME, 1, "open", None, None, "{}")


class BreakerConformance:
    """Loading, saving, losing a race."""

    async def test_a_breaker_that_was_never_saved_does_not_exist(self, store: Store) -> None:
        before = await now_of(store)
        found = await store.load_breakers([NAME])
        assert found.rows == {}
        assert before <= found.now <= await now_of(store), "the store's own time"
        assert await store.breakers() == []

    async def test_what_was_saved_is_loaded(self, store: Store) -> None:
        now = (await store.load_breakers([])).now
        breaker = Breaker(minimum=2, window=timedelta(minutes=1), wait=timedelta(seconds=5))
        open_ = count(Circuit(), breaker, [True, True], now, "OSError")
        asked = ask(open_, breaker, "job 1", now + timedelta(seconds=6), HOUR)
        for number, circuit in enumerate((open_, asked.circuit), 1):
            row = BreakerRow.of(NAME, number, circuit)
            assert await store.save_breakers([row]) == [NAME]
            assert (await store.load_breakers([NAME])).rows == {NAME: row}
            assert await store.breakers() == [row]
            assert row.circuit == circuit, "nothing is lost on the way"
        assert asked.circuit.phase is Phase.HALF_OPEN

    async def test_only_the_version_that_follows_is_written(self, store: Store) -> None:
        assert await store.save_breakers([OPEN._replace(version=2)]) == [], "there is no first"
        assert await store.save_breakers([OPEN]) == [NAME]
        assert await store.save_breakers([OPEN]) == [], "a repeated call changes nothing"
        assert await store.save_breakers([OPEN._replace(version=3, phase="closed")]) == []
        assert await store.breakers() == [OPEN]
        second = OPEN._replace(version=2, phase="closed")
        assert await store.save_breakers([second]) == [NAME]
        assert await store.breakers() == [second]

    async def test_those_that_can_be_written_are_written(self, store: Store) -> None:
        rows = [OPEN._replace(name=name) for name in ("b", "a", "B")]
        await store.save_breakers(rows[:1])
        saved = await store.save_breakers([row._replace(phase="closed") for row in rows])
        assert sorted(saved) == ["B", "a"]
        assert [(row.name, row.phase) for row in await store.breakers()] == [
            ("B", "closed"),
            ("a", "closed"),
            ("b", "open"),
        ]
        assert sorted((await store.load_breakers(["a", "b", "c"])).rows) == ["a", "b"]

    async def test_of_many_who_write_the_same_version_one_succeeds(self, store: Store) -> None:
        for version in range(1, 4):
            now = await now_of(store)
            circuit = force_open(Circuit(epoch=version), now, None, "by hand")
            rows = [
                BreakerRow.of(NAME, version, force_open(circuit, now, None, f"writer {number}"))
                for number in range(6)
            ]
            saved = await asyncio.gather(*(store.save_breakers([row]) for row in rows))
            assert saved.count([NAME]) == 1
            assert await store.breakers() == [rows[saved.index([NAME])]]

    async def test_many_breakers_are_saved_in_any_order_by_many(self, store: Store) -> None:
        rows = [OPEN._replace(name=f"service {number}") for number in range(20)]
        saved = await asyncio.gather(
            *(store.save_breakers(rows if turn % 2 else rows[::-1]) for turn in range(6))
        )
        assert sorted(name for names in saved for name in names) == sorted(row.name for row in rows)
