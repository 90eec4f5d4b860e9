"""If these fail, the FastAPI example misleads those who copy it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from detent import App, JobInfo
from tests.examples.programs import EXAMPLES, PATIENCE, running, wait_until

FOLDER = EXAMPLES / "fastapi_app"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


@contextmanager
def shop(url: str, **environ: str) -> Iterator[httpx.Client]:
    """Run the web process and give a client that speaks to it."""
    command = ("-m", "uvicorn", "main:web", "--port", "0")
    with running(FOLDER, *command, DATABASE_URL=url, **environ) as web:
        address = web.wait_for(r"running on (http://\S+)")[1]
        with httpx.Client(base_url=address, timeout=PATIENCE) as client:
            yield client


def job_with(client: httpx.Client, job: str, **wanted: Any) -> dict[str, Any]:
    """Wait until the web shows a job like that."""

    def look() -> dict[str, Any] | None:
        view: dict[str, Any] = client.get(f"/jobs/{job}").raise_for_status().json()
        return view if wanted.items() <= view.items() else None

    return wait_until(look, f"{job} with {wanted}")


async def jobs_in(url: str) -> list[JobInfo]:
    async with App(url) as app:
        return await app.jobs.list()


async def test_web_and_node_in_one_process(url: str) -> None:
    with shop(url) as client:
        # A report: accepted at once, watched, done.
        answer = client.post("/reports", params={"days": 100})
        assert answer.status_code == 202
        report = answer.json()["job"]
        running = wait_until(lambda: _under_way(client, report), "progress")
        assert running["message"].startswith("day ")
        ended = job_with(client, report, state="succeeded")
        assert ended["result"] == {"days": 100, "orders": 5_050}

        # An order: confirmed by a job that came with the same commit.
        answer = client.post("/orders", json={"item": "tea", "quantity": 2})
        assert answer.status_code == 202
        accepted = answer.json()
        assert job_with(client, accepted["job"], state="succeeded")["result"] == "2 x tea"
        assert client.get(f"/orders/{accepted['order']}").json()["status"] == "confirmed"

        # An order that cannot be: neither it nor its job is there.
        answer = client.post("/orders", json={"item": "tea", "quantity": 1_000})
        assert answer.status_code == 409
        assert client.get(f"/orders/{accepted['order'] + 1}").status_code == 404

        assert client.get(f"/jobs/{'0' * 32}").status_code == 404
        assert client.post("/reports", params={"days": 0}).status_code == 422
    assert sorted(job.task for job in await jobs_in(url)) == ["jobs.confirm", "jobs.report"]


def _under_way(client: httpx.Client, job: str) -> dict[str, Any] | None:
    view: dict[str, Any] = client.get(f"/jobs/{job}").json()
    assert view["state"] != "succeeded", "it was over before any progress was seen"
    return view if view["progress"] else None


async def test_web_alone_and_a_node_beside_it(url: str) -> None:
    with shop(url, NODE="off") as client:
        order = client.post("/orders", json={"item": "tea", "quantity": 2}).json()
        assert client.get(f"/jobs/{order['job']}").json()["state"] == "pending"
        node = ("-m", "detent", "node", "jobs:app")
        with running(FOLDER, *node, DATABASE_URL=url):
            job_with(client, order["job"], state="succeeded")
        assert client.get(f"/orders/{order['order']}").json()["status"] == "confirmed"
