"""If these fail, jobs that were acknowledged live in a file that nobody will ever see again."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent import App
from detent.config import Config
from detent.errors import StoreUnavailable

PATIENCE = 60.0


def delete(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        (path.parent / name).unlink(missing_ok=True)


def replace(path: Path) -> None:
    """Put a backup in the place of the file, as people do: by a rename."""
    shutil.copy(path, path.with_suffix(".copy"))
    delete(path)
    path.with_suffix(".copy").rename(path)


def move(path: Path) -> None:
    """Take the file away and leave what belongs to it."""
    path.rename(path.with_suffix(".moved"))


Harm = Callable[[Path], None]
harms = pytest.mark.parametrize("harm", [delete, replace, move], ids=lambda harm: harm.__name__)


def app_on(path: Path) -> App:
    app = App(config=Config.load(f"sqlite:///{path}", environ={}))

    @app.task(name="work")
    async def work(number: int) -> int:
        return number

    return app


def work_of(app: App) -> Any:
    return app.tasks.find("work")


@harms
async def test_nothing_is_acknowledged_in_a_file_that_has_gone(tmp_path: Path, harm: Harm) -> None:
    path = tmp_path / "jobs.db"
    async with asyncio.timeout(PATIENCE), app_on(path) as app, app_on(path) as other:
        work = work_of(app)
        await work.enqueue(1)
        await app.jobs.list()
        harm(path)
        # It is refused at first, and the client tries again with the file that is there.
        job = await work.enqueue(2)
        assert (await app.jobs.get(job.id)).id == job.id
        # A question has nothing to lose, and is asked of the file that is there.
        assert (await other.jobs.get(job.id)).id == job.id


@harms
async def test_a_write_is_refused_and_then_everything_is_opened_anew(
    tmp_path: Path, harm: Harm
) -> None:
    path = tmp_path / "jobs.db"
    async with asyncio.timeout(PATIENCE), app_on(path) as app:
        harm(path)
        with pytest.raises(StoreUnavailable, match=r"jobs\.db was deleted or replaced"):
            await app.store.open()
        await app.store.open()
        assert path.exists()


@harms
async def test_a_node_goes_on_with_the_file_that_is_there(tmp_path: Path, harm: Harm) -> None:
    path = tmp_path / "jobs.db"
    async with asyncio.timeout(PATIENCE), app_on(path) as app, app.node():
        work = work_of(app)
        assert await (await work.enqueue(1)).result() == 1
        harm(path)
        while True:
            try:
                job = await work.enqueue(2)
                break
            except StoreUnavailable:
                continue
        while True:
            try:
                assert await job.result() == 2
                break
            except StoreUnavailable:
                continue
        assert path.exists()


async def test_a_transaction_of_a_task_does_not_commit_into_a_file_that_has_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "jobs.db"
    async with asyncio.timeout(PATIENCE), app_on(path) as app:
        store = app.store
        await work_of(app).enqueue(1)
        database = store.database  # type: ignore[attr-defined]
        visit = await database.visit(lambda session: None)
        delete(path)
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            await database.ask(visit, lambda session: session.change("COMMIT"), last=True)
        assert not path.exists()
