"""If these fail, a Django view enqueues a job for an order that was never stored, or none."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from detent import KeyTaken, StoreUnavailable
from detent.errors import WrongConnection
from tests.within.conftest import Shop, on_a_thread
from tests.within.django_databases import django_connection


class Interrupted(Exception):
    """Makes a block roll back."""


def order(connection: Any, note: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [note])


BINDING = {"on the server": True, "in the client": False}


@pytest.mark.parametrize("binding", BINDING)
async def test_a_block_brings_its_jobs_when_it_ends(shop: Shop, binding: str) -> None:
    def view() -> Any:
        options = {"server_side_binding": BINDING[binding]}
        with django_connection(shop.url, OPTIONS=options) as connection:
            with transaction.atomic():
                job = shop.send.options(within=connection).enqueue_sync("ada")
                order(connection, "tea")
            with pytest.raises(Interrupted), transaction.atomic():  # noqa: PT012  it comes last
                order(connection, "salt")
                shop.send.options(within=connection).enqueue_sync("bob")
                raise Interrupted
        return job

    job = await on_a_thread(view)
    assert await shop.ids() == [job.id]
    assert await shop.orders() == ["tea"]


async def test_an_inner_block_takes_only_its_own_jobs_away(shop: Shop) -> None:
    def view() -> Any:
        with django_connection(shop.url) as connection, transaction.atomic():
            first = shop.send.options(within=connection, unique="u").enqueue_sync("ada")
            with pytest.raises(IntegrityError), transaction.atomic():  # noqa: PT012  it comes last
                shop.send.options(within=connection, unique="v").enqueue_sync("bob")
                order(connection, "tea")
                order(connection, "tea")
            with pytest.raises(KeyTaken):
                shop.send.options(within=connection, unique="u").enqueue_sync("bob")
            again = shop.send.options(within=connection, unique="v").enqueue_sync("bob")
        return [first.id, again.id]

    ids = await on_a_thread(view)
    assert await shop.ids() == ids


async def test_work_after_the_commit_finds_the_job(shop: Shop) -> None:
    def view() -> tuple[Any, list[Any]]:
        seen: list[Any] = []
        with django_connection(shop.url) as connection, transaction.atomic():
            job = shop.send.options(within=connection).enqueue_sync("ada")
            transaction.on_commit(lambda: seen.append(count(connection)))
        return job, seen

    def count(connection: Any) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM detent.detent_job")
            number: int = cursor.fetchone()[0]
            return number

    _, seen = await on_a_thread(view)
    assert seen == [1]


def outside(shop: Shop, connection: Any) -> None:
    shop.send.options(within=connection).enqueue_sync("ada")


def spoiled(shop: Shop, connection: Any) -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        shop.send.options(within=connection).enqueue_sync("ada")


def failed(shop: Shop, connection: Any) -> None:
    with transaction.atomic():
        order(connection, "tea")
        with pytest.raises(IntegrityError):
            order(connection, "tea")
        shop.send.options(within=connection).enqueue_sync("ada")


REFUSED: dict[str, tuple[Callable[[Shop, Any], None], str]] = {
    "outside": (outside, r"'default' outside of a transaction; .*transaction\.atomic\(\)"),
    "spoiled": (spoiled, r"'default' whose transaction has failed"),
    "failed": (failed, r"psycopg connection whose transaction has failed; roll it back"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_no_job_without_a_transaction_that_can_commit(shop: Shop, name: str) -> None:
    work, words = REFUSED[name]

    def view() -> None:
        with (
            django_connection(shop.url) as connection,
            pytest.raises(WrongConnection, match=words),
        ):
            work(shop, connection)

    await on_a_thread(view)
    assert await shop.ids() == []


async def test_a_server_that_is_not_there_is_said_to_be(shop: Shop) -> None:
    def view() -> None:
        with (
            django_connection("postgresql://postgres@127.0.0.1:1/app") as connection,
            pytest.raises(StoreUnavailable, match="broke"),
        ):
            shop.send.options(within=connection).enqueue_sync("ada")

    await on_a_thread(view)


async def test_django_does_not_like_a_running_loop(shop: Shop) -> None:
    with (
        django_connection(shop.url) as connection,
        pytest.raises(WrongConnection, match="async context - use a thread"),
    ):
        shop.send.options(within=connection).enqueue_sync("ada")
