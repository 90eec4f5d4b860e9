"""If these fail, somebody outside is not told of a job's end although he was promised it."""

import asyncio
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from detent import App
from detent._engine.deliver import POLL
from detent.sinks import OutboxEvent, WebhookSink, verify_signature
from tests.cluster.database import connected, until, until_all_ended
from tests.cluster.processes import ROOT
from tests.cluster.webhooks import SECRET
from tests.node_process import NodeProcess
from tests.receiver import OK, Answer, Receiver, Request

JOBS = 30


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


class Scene:
    """A program that enqueues, and nodes that deliver to a receiver."""

    def __init__(self, url: str, receiver: Receiver) -> None:
        self.url = url
        self.receiver = receiver
        self.nodes: list[NodeProcess] = []

    def start(self) -> NodeProcess:
        node = NodeProcess(
            "tests.cluster.webhooks:app", self.url, cwd=ROOT, WEBHOOK_URL=self.receiver.url
        )
        self.nodes.append(node)
        return node

    async def enqueue(self) -> dict[UUID, str]:
        """Enqueue jobs from a program that knows the sink; return how each will end."""
        async with App(self.url) as app:

            async def pay(number: int) -> int:
                return number

            task = app.task(name="billing.pay")(pay)
            app.sink("billing", WebhookSink("https://never.called"), tasks="billing.*")
            jobs = await app.enqueue_many([task.bind(number) for number in range(JOBS)])
        return {
            job.id: "failed" if number % 3 == 2 else "succeeded" for number, job in enumerate(jobs)
        }

    def told(self, path: str = "/events") -> list[dict[str, Any]]:
        """What was received, each with a signature that is right."""
        found = [request for request in self.receiver.requests if request.path == path]
        for request in found:
            assert verify_signature(request.body, request.headers, SECRET)
        return [json.loads(request.body) for request in found]

    async def until_told(self, ends: dict[UUID, str], patience: float = 30.0) -> None:
        async def all_told() -> bool:
            return len({event["job"]["id"] for event in self.told()}) == len(ends)

        await until(all_told, "an event for each job", patience)
        assert {UUID(event["job"]["id"]): event["job"]["state"] for event in self.told()} == ends

    async def until_empty(self, patience: float = 30.0) -> None:
        async with connected(self.url) as connection:

            async def empty() -> bool:
                return not await connection.fetchval("SELECT count(*) FROM detent.detent_event")

            await until(empty, "an empty outbox", patience)

    def close(self) -> None:
        for number, node in enumerate(self.nodes, 1):
            node.close()
            print(f"--- node {number}\n{node.said()[-5000:]}")  # noqa: T201  for whoever looks


@pytest.fixture
def scene(postgres_url: str, receiver: Receiver) -> Iterator[Scene]:
    assert "WEBHOOK_URL" not in os.environ
    scene = Scene(postgres_url, receiver)
    yield scene
    scene.close()


async def test_every_end_arrives_signed_at_a_receiver_that_fails_first(scene: Scene) -> None:
    scene.receiver.answers = [Answer(503), Answer(500), Answer(429, {"Retry-After": "1"})] * 4
    ends = await scene.enqueue()
    scene.start()
    await scene.until_told(ends)
    await scene.until_empty()
    errors = [event["job"]["error"] for event in scene.told() if event["job"]["error"]]
    assert {error["type"] for error in errors} == {"Fail"}
    ids = [event["id"] for event in scene.told()]
    assert len(ids) >= JOBS + 12 - 1, "what was not taken was sent again, with the same number"
    assert len(set(ids)) == JOBS
    # Ten jobs failed in the same way: one alert, that counts them.
    assert scene.receiver.wait_for(lambda sent: any(each.path == "/alerts" for each in sent))
    alerts = {alert["alert"]["id"] for alert in scene.told("/alerts")}
    async with App(scene.url) as app:
        found = await app.alerts.list()
        assert len(alerts) == len(found) == 1
        assert sum(alert.times for alert in found) == JOBS // 3
        assert found[0].message == "card <n> was refused"


async def test_a_killed_node_loses_no_event(scene: Scene) -> None:
    hanging, killed = threading.Event(), threading.Event()

    def hang(_request: Request) -> Answer:
        hanging.set()
        killed.wait(30.0)
        return Answer(500)

    scene.receiver.answer = hang
    ends = await scene.enqueue()
    first = scene.start()
    async with connected(scene.url) as connection:
        await until_all_ended(connection)
        assert await asyncio.to_thread(hanging.wait, 30.0)
        first.kill()
        killed.set()
        had = {event["id"] for event in scene.told()}
        assert had, "it died between what the receiver got and the note of it"
        left = await connection.fetchval("SELECT count(*) FROM detent.detent_event")
        assert left >= JOBS
    scene.receiver.answer = lambda _request: OK
    scene.start()
    await scene.until_empty(patience=60.0)
    await scene.until_told(ends)
    ids = Counter(event["id"] for event in scene.told())
    assert len(ids) == JOBS, "one for each end"
    assert {event for event, times in ids.items() if times > 1} >= had, "told again, by one name"


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def test_a_node_that_delivers_hears_at_once_of_what_another_has_written(url: str) -> None:
    """The one that runs jobs does not even know the sink; it writes what the job asks for."""
    told = asyncio.Queue[OutboxEvent]()

    async def work(number: int) -> None: ...

    async with App(url) as worker, App(url) as teller:
        worker.task(name="billing.pay")(work)
        task = teller.task(name="billing.pay")(work)
        teller.sink("billing", told.put)
        async with worker.node(), teller.node(queues={"other": 1}):
            await asyncio.sleep(1.0)  # let its first looks pass: it waits for a hint, or for long
            job = await task.enqueue(1)
            async with asyncio.timeout(POLL / 2):
                assert (await told.get()).job == job.id
            later = await task.options(delay=timedelta(hours=1)).enqueue(2)
            await worker.jobs.cancel(later.id)
            async with asyncio.timeout(POLL / 2):
                event = await told.get()
            assert (event.job, event.kind) == (later.id, "canceled")
