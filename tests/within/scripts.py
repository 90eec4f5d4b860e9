"""Programs that enqueue a job and end, or stop their loop, at once: one function each.

Run with the name of a function and the URL of a database. Each enqueues something for nobody
first, so that the wake-up in question is never the first of its loop.
"""

import asyncio
import multiprocessing
import sys
import threading
import time

from detent import App, Task
from tests.within.conftest import declare


class Program:
    """An app at module level, as scripts have it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = App(url)
        self.send: Task[..., object] = declare(self.app)
        self.nobody = self.send.options(queue="nobody")

    async def both(self) -> None:
        for _ in range(5):  # so many that the next wake-up has to wait for its turn
            await self.nobody.enqueue("nobody")
        await self.send.enqueue("ada")

    def both_blocking(self) -> None:
        for _ in range(5):
            self.nobody.enqueue_sync("nobody")
        self.send.enqueue_sync("ada")

    # Scripts

    def run_one(self) -> None:
        asyncio.run(self.send.enqueue("ada"))

    def run_some(self) -> None:
        asyncio.run(self.both())

    def run_with_app(self) -> None:
        async def main() -> None:
            async with self.app:
                await self.both()

        asyncio.run(main())

    def run_and_go_on(self) -> None:
        asyncio.run(self.both())
        time.sleep(60)

    def run_many_at_once(self) -> None:
        async def main() -> None:
            await asyncio.gather(*(self.nobody.enqueue("nobody") for _ in range(50)))
            await self.send.enqueue("ada")

        asyncio.run(main())

    def fail(self) -> None:
        async def main() -> None:
            await self.both()
            raise SystemExit(0)

        asyncio.run(main())

    def stop_the_loop(self) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.both())
        sys.exit()

    def close_the_loop(self) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.both())
        loop.close()

    def keep_a_loop(self) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.nobody.enqueue("nobody"))
        time.sleep(0.1)
        loop.run_until_complete(self.send.enqueue("ada"))
        time.sleep(60)

    def blocking(self) -> None:
        self.both_blocking()

    def blocking_many(self) -> None:
        self.nobody.enqueue_sync("nobody")
        self.app.enqueue_many_sync([self.send.bind("ada")])

    def thread(self) -> None:
        def later() -> None:
            time.sleep(0.2)
            self.both_blocking()

        threading.Thread(target=later).start()

    def fork(self) -> None:
        self.nobody.enqueue_sync("nobody")
        self._child("fork", self.both_blocking)

    def forked_run(self) -> None:
        self.nobody.enqueue_sync("nobody")
        self._child("fork", self.run_some)

    def _child(self, method: str, work: object) -> None:
        child = multiprocessing.get_context(method).Process(target=work)  # type: ignore[attr-defined]
        child.start()
        child.join()
        sys.exit(child.exitcode)

    def spawn(self) -> None:
        self.nobody.enqueue_sync("nobody")
        child = multiprocessing.get_context("spawn").Process(
            target=main, args=("blocking", self.url)
        )
        child.start()
        child.join()
        sys.exit(child.exitcode)


SCRIPTS = [name for name in vars(Program) if not name.startswith(("_", "both"))]


def main(name: str, url: str) -> None:
    getattr(Program(url), name)()


if __name__ == "__main__":
    main(*sys.argv[1:])
