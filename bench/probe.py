"""The counter that the task of every subject calls: without it each would be timed in its own way.

A run is a folder in shared memory. Each node process writes one small file (jobs started, first
start, last start); all of them share `starts`, one cell per job number. The harness reads these
files without disturbing anyone. Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RUN = "BENCH_RUN"
CELL = 8
COUNT, FIRST, LAST = range(3)

_counter: memoryview | None = None
_starts: memoryview | None = None


def hit(number: int) -> None:
    """Count the start of job `number`. Called from one thread per process, the event loop's."""
    now = time.monotonic_ns()
    if _counter is None or _starts is None:
        _open()
    assert _counter is not None
    assert _starts is not None
    _counter[COUNT] += 1
    _counter[LAST] = now
    if _counter[FIRST] == 0:
        _counter[FIRST] = now
    if 0 <= number < len(_starts) and _starts[number] == 0:
        _starts[number] = now


def _open() -> None:
    global _counter, _starts
    folder = Path(os.environ[RUN])
    own = folder / f"node-{os.getpid()}.count"
    own.write_bytes(bytes(3 * CELL))
    _counter, _starts = _map(own), _map(folder / "starts")


def _map(path: Path) -> memoryview:
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0)).cast("q")


@dataclass(frozen=True)
class Counts:
    """What all nodes of a run did so far; times in seconds."""

    started: int
    first: float
    last: float

    @property
    def rate(self) -> float:
        """Jobs per second between the first and the last start."""
        elapsed = self.last - self.first
        return (self.started - 1) / elapsed if elapsed > 0 else 0.0


class Run:
    """The folder of one run, as the harness sees it."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        (folder / "starts").write_bytes(bytes(CELL * max(jobs, 1)))

    def counts(self) -> Counts:
        cells = [memoryview(raw).cast("q") for raw in self._counters() if len(raw) == 3 * CELL]
        seen = [cell for cell in cells if cell[COUNT]]
        return Counts(
            started=sum(cell[COUNT] for cell in seen),
            first=min((cell[FIRST] for cell in seen), default=0) / 1e9,
            last=max((cell[LAST] for cell in seen), default=0) / 1e9,
        )

    def starts(self) -> list[int]:
        """Start of each job number in nanoseconds; 0 for one that never started."""
        return list(memoryview((self.folder / "starts").read_bytes()).cast("q"))

    def log_tail(self, lines: int = 8) -> str:
        """The end of what the nodes printed, for the message of a failed run."""
        texts = [path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log"))]
        return "\n".join(line for text in texts for line in text.splitlines()[-lines:])

    def _counters(self) -> list[bytes]:
        return [path.read_bytes() for path in self.folder.glob("node-*.count")]


@contextmanager
def new_run(jobs: int) -> Iterator[Run]:
    """A run in shared memory where the machine has it; the folder goes with the block."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="detent-bench-", dir=shared if shared.is_dir() else None))
    try:
        yield Run(folder, jobs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
