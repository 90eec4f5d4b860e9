"""If this fails, memory grows with every job until the garbage collector comes round."""

import gc

from detent import App
from detent.testing.virtual import VirtualRuntime, run

JOBS = 300


def test_a_job_leaves_nothing_for_the_garbage_collector() -> None:
    async def work() -> int:
        app = App("memory://", runtime=VirtualRuntime(1))

        @app.task(name="noop")
        async def noop(number: int) -> int:
            return number

        jobs = await app.enqueue_many([noop.bind(number) for number in range(JOBS)])
        async with app.node(concurrency=10):
            await jobs[-1].result()
            gc.collect()
            jobs = await app.enqueue_many([noop.bind(number) for number in range(JOBS)])
            await jobs[-1].result()
            return gc.collect()

    gc.disable()
    try:
        assert run(work()) < JOBS
    finally:
        gc.enable()
