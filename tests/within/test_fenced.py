"""If these fail, a leader of the past still commits what it was doing."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from detent import App, TermLost
from detent.errors import WrongConnection
from detent.leaders import Leadership
from tests.within.conftest import Shop, lite_shop
from tests.within.kinds import POSTGRES, SQLITE, BlockingCaller, Caller, Open


async def fence(caller: Caller, leadership: Leadership) -> None:
    if isinstance(caller, BlockingCaller):
        await caller.run(leadership.fenced_sync, caller.within)
    else:
        await leadership.fenced(caller.within)


async def elected(app: App) -> Leadership:
    leadership = await app.leaders.try_acquire("importer")
    assert leadership is not None
    return leadership


class Contract:
    """What every kind of connection has to keep."""

    kinds: ClassVar[Mapping[str, Open]]

    async def test_a_transaction_commits_under_its_term_and_no_other(
        self, shop: Shop, kind: str
    ) -> None:
        leadership = await elected(shop.app)
        async with self.kinds[kind](shop.url) as caller:
            await fence(caller, leadership)
            await caller.order("tea")
            await caller.commit()
        await leadership.release()
        successor = await elected(shop.app)
        assert successor.term == leadership.term + 1
        async with self.kinds[kind](shop.url) as caller:
            await caller.order("coffee")
            with pytest.raises(TermLost) as refused:
                await fence(caller, leadership)
            assert (refused.value.role, refused.value.term) == ("importer", 1)
            await caller.rollback()
        async with self.kinds[kind](shop.url) as caller:
            await fence(caller, successor)
            await caller.order("milk")
            await caller.commit()
        assert await shop.orders() == ["milk", "tea"]
        await successor.release()


@pytest.mark.parametrize("kind", POSTGRES)
class TestPostgres(Contract):
    kinds = POSTGRES


@pytest.mark.parametrize("kind", SQLITE)
class TestSqlite(Contract):
    kinds = SQLITE

    @pytest.fixture
    async def shop(self, tmp_path: Path) -> AsyncIterator[Shop]:
        async with lite_shop(tmp_path / "shop.db") as shop:
            yield shop


async def test_connections_that_cannot_be_fenced_are_refused_in_these_words(shop: Shop) -> None:
    leadership = await elected(shop.app)
    async with POSTGRES["asyncpg"](shop.url) as caller:
        await caller.rollback()
        with pytest.raises(WrongConnection, match=r"^fenced\(\) was given a asyncpg connection"):
            await leadership.fenced(caller.within)
    async with POSTGRES["psycopg"](shop.url) as caller:
        with pytest.raises(WrongConnection, match=r"use fenced_sync\(\) on the thread"):
            await leadership.fenced(caller.within)
    with pytest.raises(WrongConnection, match=r"^fenced\(\) was given a builtins.str"):
        leadership.fenced_sync("postgresql://")
