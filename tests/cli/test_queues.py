"""If these fail, somebody stops another queue than he meant, or none at all."""

import asyncio
import json
from collections.abc import Callable

import pytest
from click.testing import Result

from detent import App
from tests.cli.conftest import Detent
from tests.cli.stores import Program

Queues = Callable[..., Result]


@pytest.fixture
def program(store_url: str) -> Program:
    return Program(store_url)


@pytest.fixture
def queues(detent: Detent, store_url: str) -> Queues:
    """Call `detent queues`."""
    return lambda *arguments: detent("queues", *arguments, DETENT_URL=store_url)


def test_a_queue_is_paused_and_resumed(queues: Queues, program: Program) -> None:
    program.enqueue(queue="mail", count=2)
    assert queues("pause", "mail").output == "mail\tpaused\n"
    name, paused, pending, due, running, since, *_ = queues().output.strip().split("\t")
    assert (name, paused, pending, due, running) == ("mail", "true", "2", "2", "0")
    assert since.endswith("Z")
    assert json.loads(queues("resume", "mail", "--json").output) == {
        "queue": "mail",
        "paused": False,
    }
    assert queues("--json").output == queues("list", "--json").output
    assert json.loads(queues("--json").output)[0]["paused"] is False


def test_a_queue_that_nobody_has_used_is_a_mistake(queues: Queues, program: Program) -> None:
    result = queues("pause", "mail")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "detent: error: no queue is named 'mail'; there is none yet\n"
    program.enqueue(queue="mail")
    program.enqueue(queue="reports")
    result = queues("pause", "mial")
    assert result.stderr == "detent: error: no queue is named 'mial'; did you mean mail?\n"
    result = queues("resume", "zzz")
    assert result.stderr == "detent: error: no queue is named 'zzz'; known are mail, reports\n"
    assert '"paused": true' not in queues("--json").output


def test_a_queue_whose_jobs_have_all_ended_is_known(queues: Queues, program: Program) -> None:
    (job,) = program.enqueue(queue="mail")
    program.call(lambda app: app.jobs.cancel(job))
    assert queues().output == ""
    assert queues("pause", "mail").exit_code == 0


def test_a_queue_that_a_node_takes_is_known(queues: Queues, program: Program) -> None:
    async def run(app: App) -> Result:
        async with app.node(queues={"fresh": 2}):
            return await asyncio.to_thread(queues, "pause", "fresh")

    assert program.call(run).exit_code == 0


def test_a_name_that_cannot_be_is_refused(queues: Queues) -> None:
    result = queues("pause", "a+b")
    assert result.exit_code == 2
    assert "queue 'a+b': must be 1 to 100 of" in result.stderr


@pytest.mark.parametrize("slots", ["0", "many", "²"])
def test_slots_that_cannot_be_are_refused(queues: Queues, slots: str) -> None:
    result = queues("scale", "mail", slots)
    assert result.exit_code == 2
    assert f"'{slots}' must be 1 to 100,000, or auto" in result.stderr


def test_running_nodes_are_listed(detent: Detent, program: Program) -> None:
    async def run(app: App) -> Result:
        async with app.node(queues={"mail": 2}, name="web-1"):
            return await asyncio.to_thread(detent, "nodes", "--url", program.url, "--json")

    (node,) = json.loads(program.call(run).output)
    assert (node["name"], node["state"], node["queues"]) == ("web-1", "active", {"mail": 2})
    assert detent("nodes", "--url", program.url).output == ""
