"""The one task of the chaos: have an effect that no crash of the database can hide."""

import asyncio
import os
import time
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, Self
from uuid import UUID

from detent import App, JobContext, Retry, machine

FOLDER: Final = "DETENT_CHAOS_FOLDER"
HOST: Final = "DETENT_CHAOS_HOST"
BEGIN: Final = "begin"
END: Final = "end"

if HOST in os.environ:
    # As on a machine of its own: neighbours cannot see that this process has ended. There is only
    # one machine here, so it is told another name of its boot.
    boot = Path(os.environ[FOLDER]) / f"{os.environ[HOST]}.boot"
    boot.write_text(os.environ[HOST])
    machine._BOOT = boot  # type: ignore[misc]

app = App()


class Effect(NamedTuple):
    """One line: a run began, or ended."""

    what: str
    job: UUID
    fence: int
    node: UUID
    pid: int
    at: float

    @classmethod
    def read_all(cls, folder: Path) -> list["Effect"]:
        """Return what all nodes wrote, in order of time."""
        return EffectFiles(folder).read()

    @classmethod
    def of(cls, line: str) -> Self:
        """Return what a line says."""
        what, job, fence, node, pid, at = line.split()
        return cls(what, UUID(job), int(fence), UUID(node), int(pid), float(at))


class EffectFiles:
    """The files of all nodes, read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._effects: list[Effect] = []

    def read(self) -> list[Effect]:
        """Return all effects so far, in order of time."""
        before = len(self._effects)
        for path in self._folder.glob("*.effects"):
            with path.open() as file:
                file.seek(self._read.get(path, 0))
                # The last line may be on its way, or have been cut by a kill.
                whole = file.read().rpartition("\n")[0]
            if whole:
                self._read[path] = self._read.get(path, 0) + len(whole) + 1
                self._effects += map(Effect.of, whole.split("\n"))
        if len(self._effects) > before:
            self._effects.sort(key=attrgetter("at"))
        return self._effects


@cache
def _file() -> int:
    path = Path(os.environ[FOLDER]) / f"{os.getpid()}.effects"
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(what: str, ctx: JobContext) -> None:
    """Write a line. What the kernel has taken outlives every process that is killed here."""
    fields = (what, ctx.job_id, ctx.fence, ctx.node_id, os.getpid(), time.time())
    os.write(_file(), (" ".join(map(str, fields)) + "\n").encode())


@app.task(name="chaos", retry=Retry(max_attempts=3))
async def chaos(ctx: JobContext, seconds: float) -> None:
    """Begin, take a while, end."""
    note(BEGIN, ctx)
    await asyncio.sleep(seconds)
    note(END, ctx)
