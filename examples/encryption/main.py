"""Cards that nobody reads in the database: encrypted, rotated, hidden, refused when altered.

Runs without a server: the jobs are in a SQLite file, into which this program looks itself.
"""

import asyncio
import secrets
import sqlite3
import tempfile
from pathlib import Path

from detent import App, JobContext, JobFailed, acting_as
from detent.config import Config, EncryptionConfig, StoreConfig
from detent.errors import NotAllowed
from detent.model.access import Action, Target

CARD = "4111-1111-1111-1111"


def make_app(file: Path, **keys: bytes) -> App:
    """Return an app with some keys; in real life DETENT_ENCRYPTION_KEYS holds them."""
    store = StoreConfig(url=f"sqlite:///{file}")
    app = App(config=Config(store=store, encryption=EncryptionConfig(keys=keys)))

    @app.task(name="charge", encrypted=True)
    async def charge(ctx: JobContext, card: str) -> str:
        return f"charged {card} for {ctx.principal}"

    @app.authorize
    def may(principal: str | None, action: Action, target: Target) -> bool:
        return action is not Action.CREATE or principal is not None

    return app


async def main(file: Path) -> None:
    """Enqueue, look into the file, rotate the key, come without one, alter a row."""
    first, second = secrets.token_bytes(32), secrets.token_bytes(32)

    async with make_app(file, k1=first) as app, app.node():
        charge = app.tasks.get("charge")
        try:
            await charge.enqueue(CARD)
        except NotAllowed as refused:
            print(refused)
        with acting_as("ada"):
            job = await charge.enqueue(CARD)
        print(await job.result(timeout=30))

    files = [each.read_bytes() for each in file.parent.iterdir()]
    print("the card is in the database:", any(CARD.encode() in data for data in files))

    # Rotation: a second key is added, and is the one to encrypt with from then on.
    async with make_app(file, k1=first, k2=second) as app:
        print("with both keys:", await app.jobs.result(job.id))

    # Without keys one sees that there is something, and no more.
    async with make_app(file) as app:
        print("without keys:", (await app.jobs.get(job.id)).args.decode())

    # Somebody gives a job the arguments of another: they open in their own place only.
    async with make_app(file, k2=second) as app:
        with acting_as("ada"):
            moved = await app.tasks.get("charge").enqueue("another card")
        with sqlite3.connect(file) as connection:
            connection.execute(
                "UPDATE detent_job SET args = (SELECT args FROM detent_job WHERE id = ?)"
                " WHERE id = ?",
                (job.id.bytes, moved.id.bytes),
            )
        connection.close()
    async with make_app(file, k1=first, k2=second) as app, app.node():
        try:
            await app.jobs.result(moved.id, timeout=30)
        except JobFailed as failed:
            print("moved:", failed.error["type"] if failed.error else failed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "jobs.db"))
