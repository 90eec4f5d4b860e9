"""A program whose first calls come from many threads at once, as in a server that was just started.

Run with the URL of a database, the size of the pool, how many threads begin at once and how many
forked children do the same; prints how many jobs it enqueued and exits with 0.
"""

import os
import sys
import threading
from dataclasses import replace

from detent import App
from detent.config import Config
from tests.cluster.forking import in_child


def make_app(url: str, pool_size: int) -> App:
    config = Config.load(url)
    return App(config=replace(config, store=replace(config.store, pool_size=pool_size)))


def enqueue_from_threads(app: App, threads: int) -> int:
    """Let threads make the first call of an app together; return how many calls succeeded."""

    @app.task(name="cold")
    async def cold(number: int) -> None: ...

    together = threading.Barrier(threads)
    stored: list[int] = []

    def call(number: int) -> None:
        together.wait()
        # Half of them begin with a look, so that store and client are first needed at once.
        if number % 2:
            assert app.jobs is app.jobs
        cold.enqueue_sync(number)
        cold.options(key=f"{os.getpid()}-{number}").enqueue_sync(number)
        stored.append(number)

    running = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(stored)


def main(url: str, pool_size: int, threads: int, children: int) -> None:
    app = make_app(url, pool_size)
    if not children:
        print(enqueue_from_threads(app, threads))  # noqa: T201  the answer
        return
    counts: list[int] = []
    waiting = [
        threading.Thread(
            target=lambda: counts.append(in_child(lambda: enqueue_from_threads(app, threads)))
        )
        for _ in range(children)
    ]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    print(sum(counts))  # noqa: T201  the answer


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
