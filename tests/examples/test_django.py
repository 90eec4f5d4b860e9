"""If these fail, the Django example misleads those who copy it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from detent import App, JobInfo
from detent.testing.postgres import _free_port
from tests.examples.programs import EXAMPLES, PATIENCE, running, wait_until

FOLDER = EXAMPLES / "django_project"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A file with Django's tables and Detent's."""
    file = tmp_path / "shop.db"
    run(file, "manage.py", "migrate", "--verbosity", "0")
    run(file, "-m", "detent", "migrate", "--url", f"sqlite:///{file}")
    return file


def run(database: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=FOLDER,
        env={"SHOP_DATABASE": str(database)},
        timeout=PATIENCE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def shop(database: Path) -> Iterator[httpx.Client]:
    """Run Django's server and give a client that speaks to it."""
    address = f"127.0.0.1:{_free_port()}"
    command = ("manage.py", "runserver", "--noreload", address)
    with running(FOLDER, *command, SHOP_DATABASE=str(database)) as web:
        web.wait_for("Starting .*server at")
        # It says so a moment before it listens.
        transport = httpx.HTTPTransport(retries=10)
        with httpx.Client(
            base_url=f"http://{address}", timeout=PATIENCE, transport=transport
        ) as client:
            yield client


def status_of(client: httpx.Client, order: int) -> str:
    status: str = client.get(f"/orders/{order}/").raise_for_status().json()["status"]
    return status


def wait_until_packed(client: httpx.Client, order: int) -> None:
    wait_until(lambda: status_of(client, order) == "packed", f"order {order} to be packed")


async def jobs_in(database: Path) -> list[JobInfo]:
    async with App(f"sqlite:///{database}") as app:
        return await app.jobs.list()


async def test_an_order_is_packed_by_a_node(database: Path) -> None:
    with shop(database) as client:
        answer = client.post("/orders/", json={"item": "tea", "price": 20})
        assert answer.status_code == 202
        accepted = answer.json()
        assert status_of(client, accepted["order"]) == "new"

        node = ("-m", "detent", "node", "shop.jobs:app")
        with running(FOLDER, *node, SHOP_DATABASE=str(database)):
            wait_until_packed(client, accepted["order"])
            # More than one thread of the node has its own connection to the database.
            answers = [client.post("/orders/", json={"item": "cup", "price": 5}) for _ in range(20)]
            for answer in answers:
                wait_until_packed(client, answer.json()["order"])
    jobs = await jobs_in(database)
    assert {str(job.state) for job in jobs} == {"succeeded"}
    assert accepted["job"] in {str(job.id) for job in jobs}


async def test_a_declined_payment_leaves_neither_order_nor_job(database: Path) -> None:
    with shop(database) as client:
        first = client.post("/orders/", json={"item": "tea", "price": 20}).json()
        answer = client.post("/orders/", json={"item": "yacht", "price": 1_000_000})
        assert answer.status_code == 402
        assert client.get(f"/orders/{first['order'] + 1}/").status_code == 404
    assert [str(job.id) for job in await jobs_in(database)] == [first["job"]]


def test_models_and_migrations_agree(database: Path) -> None:
    assert "No changes detected" in run(
        database, "manage.py", "makemigrations", "--check", "--dry-run"
    )
