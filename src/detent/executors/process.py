"""Runs functions in child processes, one job per child at a time.

A child is a fresh interpreter that gets names and bytes, never objects. It can be killed, so
timeouts and cancels end the work for certain, and whatever happens in it fails one job only.
"""

import asyncio
import os
import sys
from typing import Any, Final

from detent.config import LimitsConfig, PoolConfig
from detent.executors.children import Children
from detent.executors.frames import Cancel, Frame, Kind, Load, Run, Setup
from detent.executors.origin import main_module
from detent.executors.remote import retold
from detent.executors.worker import Worker
from detent.spi.attempt import AttemptPort
from detent.spi.executor import Call, Encoded

# What a frame may have besides a result: a traceback, a log line.
ROOM: Final = 1 << 20
# Who is told these may end in peace; the others have no time, or no right, to say anything more.
POLITE: Final = ("cancel", "drain")


class ProcessExecutor:
    """The executor named `process`, and every pool of that kind."""

    furnishes = True
    """Objects do not cross: what a task depends on is made in the child that runs it."""

    def __init__(self, config: PoolConfig, size: int, limits: LimitsConfig) -> None:
        self._limits = limits
        self.capacity = size
        self._kill_grace = config.kill_grace.total_seconds()
        self._load_timeout = config.load_timeout.total_seconds()
        self._children = Children(config, size, self._hire)

    async def run(self, call: Call) -> Any:
        """See `Executor.run`."""
        worker = self._children.take(call.task)
        if worker is None:
            call.on_queued()
            if self._children.can_start_another():
                call.on_assigned()
            worker = await self._prepared(call)
            call.on_begun()
        try:
            answer = await self._perform(worker, call)
        finally:
            self._children.release(worker)
        if answer.kind is Kind.RAISED:
            raise retold(answer.head, call.job.job_id)
        if answer.head.problem is not None:
            return Encoded(None, answer.head.problem)
        return Encoded(answer.payload) if answer.payload else None

    async def close(self) -> None:
        """See `Executor.close`."""
        await self._children.close()

    # Before a job

    async def _hire(self, worker: Worker) -> None:
        """Start a child and make it like this process."""
        await worker.start(self._limits.max_result + ROOM)
        path, name = main_module()
        setup = Setup(
            path=[entry for entry in sys.path if isinstance(entry, str)],
            argv=list(sys.argv),
            main_path=path,
            main_name=name,
            parent=os.getpid(),
            max_result=self._limits.max_result,
            max_log_line=self._limits.max_log_line,
        )
        await self._answered(worker, worker.ask(Kind.SETUP, setup), "starting it")

    async def _prepared(self, call: Call) -> Worker:
        """Wait for a free child, and let it import what it needs for this task."""
        worker = await self._children.wait()
        call.on_assigned()
        try:
            if call.task not in worker.loaded:
                await self._load(worker, call)
        except BaseException:
            self._children.release(worker)
            raise
        return worker

    async def _load(self, worker: Worker, call: Call) -> None:
        """Let a child import the task; what it raises there counts as raised by the task."""
        asked = worker.ask(Kind.LOAD, Load(call.task, list(call.modules)))
        answer = await self._answered(worker, asked, f"importing {call.modules[0]}")
        if answer.kind is Kind.RAISED:
            told = answer.head
            told.sort = "error"
            told.message = f"the task cannot be loaded in a child process: {told.message}"
            raise retold(told, call.job.job_id)
        worker.loaded.add(call.task)

    async def _answered(self, worker: Worker, asked: "asyncio.Future[Frame]", doing: str) -> Frame:
        """Wait for an answer, no longer than loading may take."""
        try:
            await asyncio.wait([asked], timeout=self._load_timeout)
        except asyncio.CancelledError:
            asked.cancel()
            await worker.kill()
            raise
        if not asked.done():
            await worker.kill(f"{doing} took longer than {self._load_timeout:g} s")
        return await asked

    # A job

    async def _perform(self, worker: Worker, call: Call) -> Frame:
        job = call.job
        run = Run(
            task=call.task,
            job_id=job.job_id,
            queue=job.queue,
            attempt=job.attempt,
            generation=job.generation,
            fence=job.fence,
            node_id=job.node_id,
            deadline=job.deadline(),
            codec=call.codec,
            params=dict(job.params()),
            tags=list(job.tags()),
            principal=job.principal,
            schedule=job.schedule,
            slot=job.slot,
        )
        worker.job = job
        worker.jobs += 1
        asked = worker.ask(Kind.RUN, run, call.payload)
        try:
            return await asked
        except asyncio.CancelledError:
            answer = await self._wind_down(worker, job) if asked.cancelled() else asked
            if answer.exception() is not None:
                raise
            return answer.result()
        finally:
            worker.job = None

    async def _wind_down(self, worker: Worker, job: AttemptPort) -> "asyncio.Future[Frame]":
        """End a job that was told to stop, by itself if it may and can; return its answer."""
        answer = worker.answer()
        # Seen, also when we are interrupted and nobody looks at it any more.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            if job.stop in POLITE and self._kill_grace > 0:
                worker.send(Kind.CANCEL, Cancel(str(job.stop), job.reason))
                await asyncio.wait([answer], timeout=self._kill_grace)
        finally:
            # Also when we are told once more, and now it is urgent.
            if not answer.done():
                await worker.kill()
        return answer
