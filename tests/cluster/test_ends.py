"""If these fail, a database in trouble makes ended jobs run again, or a lock stops all ends."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Final

import pytest

from detent import App
from detent.errors import StoreBusy, StoreUnavailable
from detent.events import FinishGaveUp, StoreTrouble
from detent.model.state import State
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import (
    HOUR,
    claim_request,
    new_job,
    node_identity,
    settlement,
)
from tests.cluster.database import connected

PROMPT: Final = 5.0
"""Seconds, on a machine that others use; a wait for the open transaction never ends."""

REFUSE: Final = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '{code}'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON detent.detent_outcome
    FOR EACH STATEMENT EXECUTE FUNCTION public.refuse();
"""
ACCEPT: Final = "DROP TRIGGER refuse ON detent.detent_outcome"


@pytest.mark.parametrize("code", ["53100", "53200", "58030"])
async def test_a_server_that_refuses_ends_for_a_while_gets_them_later(
    postgres_url: str, code: str
) -> None:
    runs, troubles, all_ran = Counter[int](), asyncio.Queue[StoreTrouble](), asyncio.Event()
    async with App(postgres_url) as app, connected(postgres_url) as admin:
        gave_up: list[FinishGaveUp] = []
        app.bus.subscribe(StoreTrouble, troubles.put_nowait)
        app.bus.subscribe(FinishGaveUp, gave_up.append)

        @app.task
        async def work(number: int) -> int:
            runs[number] += 1
            if len(runs) == 10:
                all_ran.set()
            return number

        await admin.execute(REFUSE.format(code=code))
        async with app.node():
            jobs = [
                await work.options(unique=f"{number}" if number % 2 else None).enqueue(number)
                for number in range(10)
            ]
            await all_ran.wait()
            told: set[str] = set()
            while len(told) < 2:
                told.add((await troubles.get()).where)
            assert told == {"finisher", "hooked finisher"}
            assert await admin.fetchval("SELECT count(*) FROM detent.detent_running") == 10
            await admin.execute(ACCEPT)
            assert [await job.result(timeout=30) for job in jobs] == list(range(10))
        assert set(runs.values()) == {1}
        assert gave_up == []


async def test_a_refusal_that_passes_costs_no_connection(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, pool_size=1)
    async with connected(postgres_url) as admin:
        await admin.execute(REFUSE.format(code="53100"))
        node = node_identity()
        await store.join(node, HOUR)
        await store.enqueue_jobs([new_job()])
        (claim,) = await store.claim_jobs(claim_request(node.incarnation))
        async with store.database.connection() as connection:
            before = connection.get_server_pid()
        for finish in (store.settle_jobs, store.finish_hooked):
            with pytest.raises(StoreUnavailable, match=r"no space left on device \(53100\)"):
                await finish(node.incarnation, [settlement(claim, State.SUCCEEDED)])
        async with store.database.connection() as connection:
            assert connection.get_server_pid() == before
    await store.close()


async def test_an_open_transaction_that_replaces_a_job_holds_up_no_end_but_its_own(
    postgres_url: str,
) -> None:
    async with App(postgres_url) as app, connected(postgres_url) as caller:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @app.task
        async def quick(hold: bool = False) -> str:
            if not hold:
                return "quick"
            begun.set()
            await may_end.wait()
            return "held"

        async with app.node(), asyncio.timeout(60):
            held = await quick.options(unique="key").enqueue(hold=True)
            await begun.wait()
            transaction = caller.transaction()
            await transaction.start()
            replacing = quick.options(unique="key", on_conflict="replace", within=caller)
            replacement = await replacing.enqueue()
            may_end.set()
            # Its end is on its way, and waits for the transaction.
            await asyncio.sleep(0.2)
            for number in range(5):
                assert await (await quick.enqueue()).result(timeout=PROMPT) == "quick"
                other = await quick.options(unique=f"other {number}").enqueue()
                assert await other.result(timeout=PROMPT) == "quick"
            assert (await app.jobs.get(held.id)).state is State.RUNNING
            await transaction.commit()
            assert await held.result(timeout=20) == "held"
            assert await replacement.result(timeout=20) == "quick"


async def test_ends_of_locked_jobs_say_so_in_time(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, timeout=timedelta(seconds=20))
    node = node_identity()
    await store.join(node, HOUR)
    await store.enqueue_jobs([new_job()])
    (claim,) = await store.claim_jobs(claim_request(node.incarnation))
    end = settlement(claim, State.SUCCEEDED)
    async with connected(postgres_url) as other, other.transaction():
        await other.execute("SELECT FROM detent.detent_running FOR UPDATE")
        async with asyncio.timeout(PROMPT):
            with pytest.raises(StoreBusy):
                await store.finish_hooked(node.incarnation, [end], patience=0.05)
    assert await store.finish_hooked(node.incarnation, [end], patience=0.05) == [claim.id]
    await store.close()
