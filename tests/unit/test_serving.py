"""If these fail, jobs wait in a queue that its own app declares, and nothing says why."""

from typing import Any

import pytest

from detent import App, ConfigError
from detent.config.readers import read_queues
from detent.config.sections import NodeConfig
from detent.events import NodeStarted, TasksUnreached
from detent.serving import served_queues
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


def declare(app: App) -> Any:
    @app.task(queue="mail", name="send")
    async def send() -> str:
        return "sent"

    @app.task(name="usual")
    async def usual() -> str:
        return "done"

    @app.task(name="draw", needs=["gpu"])
    async def draw() -> None: ...

    return send, usual


@in_virtual_time
async def test_a_node_serves_the_queues_that_its_tasks_declare() -> None:
    stage = Stage()
    send, usual = declare(stage.app)
    async with stage.node(concurrency=7):
        assert stage.told(NodeStarted)[0].queues == {"default": 7, "mail": 7}
        assert await (await send.enqueue()).result(timeout=10) == "sent"
        assert await (await usual.enqueue()).result(timeout=10) == "done"
        (told,) = stage.told(TasksUnreached)
        assert told.tasks == {"draw": "gpu"}


@in_virtual_time
async def test_a_node_tells_which_tasks_it_will_not_run() -> None:
    stage = Stage()
    declare(stage.app)
    async with stage.node(queues={"default": 5}, capabilities=("gpu",)):
        (told,) = stage.told(TasksUnreached)
        assert told.tasks == {"send": "the queue mail"}
    async with stage.node(queues={"default": 5, "mail": 1}, capabilities=("gpu",)):
        assert len(stage.told(TasksUnreached)) == 1, "this one reaches all"


@in_virtual_time
async def test_all_queues_are_those_that_are_known_too() -> None:
    stage = Stage()
    send, _ = declare(stage.app)
    job = await send.options(queue="other").enqueue()
    async with stage.app.node(queues="*", concurrency=3):
        assert stage.told(NodeStarted)[0].queues == {"default": 3, "mail": 3, "other": 3}
        assert await job.result(timeout=10) == "sent"


@pytest.mark.parametrize(
    "given, queues",
    [
        ("*", {"default": 100, "mail": 100, "old": 100}),
        ("*=5", {"default": 5, "mail": 5, "old": 5}),
        ("mail=20,*", {"default": 100, "mail": 20, "old": 100}),
        ("mail=20", {"mail": 20}),
        (None, {"default": 100, "mail": 100}),
    ],
)
def test_how_queues_are_named(given: str | None, queues: dict[str, int]) -> None:
    app = App("memory://")
    declare(app)
    config = NodeConfig(concurrency=100, queues={} if given is None else read_queues(given))
    assert served_queues(config, app.tasks, ["old"]) == queues


@pytest.mark.parametrize("wrong", ["**", "*=x", "mail", "*=0x"])
def test_what_names_no_queue_is_refused(wrong: str) -> None:
    with pytest.raises((ValueError, TypeError, ConfigError)):
        read_queues(wrong)
