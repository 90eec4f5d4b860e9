"""What a process can tell of itself, and of other processes on the same machine.

With it, a node that starts need not wait for the lease of one that it knows to have ended.
"""

import os
import platform
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from detent.spi.nodes import NodeInfo

_PROC: Final = Path("/proc")
_BOOT: Final = _PROC / "sys/kernel/random/boot_id"
# The fields of /proc/PID/stat that follow the name of the program; the start is the 20th.
_START: Final = 19
METERED: Final = 1.0
STACK: Final = 4
"""How many frames of a stack are shown."""


def describe_process() -> dict[str, str]:
    """Return what tells this process from every other, and what it runs on."""
    described = {"python": platform.python_version(), "system": sys.platform}
    space, started = _pid_space(), _started(os.getpid())
    if space is not None and started is not None:
        described |= {"pid_space": space, "started": started}
    return described


def is_gone(node: NodeInfo) -> bool:
    """Tell whether the process of a node has surely ended.

    Only the processes that this one can see are judged: those of the same boot of the same
    machine, in the same namespace of process ids. A process id that was given to another one
    since then is known by its start.
    """
    space = _pid_space()
    if space is None or node.info.get("pid_space") != space:
        return False
    started = _started(node.pid)
    return started is None or started != node.info.get("started")


def was_process(node: NodeInfo, pid: int) -> bool:
    """Tell whether a node was the process of that id, which has ended here.

    Where processes cannot be told apart better, the name of the host has to do.
    """
    if node.pid != pid:
        return False
    if _pid_space() is None or "pid_space" not in node.info:
        return node.host == socket.gethostname()
    return is_gone(node)


def _pid_space() -> str | None:
    try:
        boot = _BOOT.read_text().strip()
        return f"{boot} {os.stat(_PROC / 'self/ns/pid').st_ino}"  # noqa: PTH116  follows the link
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since the machine did; None if there is none."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, parentheses too.
    fields = stat.rpartition(")")[2].split()
    # A zombie has ended: it only waits for its parent to notice.
    return None if fields[0] in "ZX" else fields[_START]


def meter() -> Callable[[], Mapping[str, float]]:
    """Return a function that tells how busy this process was of late, at least for a second."""
    last = [time.monotonic(), time.process_time()]
    cpu = 0.0

    def read() -> Mapping[str, float]:
        nonlocal cpu
        now, used = time.monotonic(), time.process_time()
        passed, worked = now - last[0], used - last[1]
        # The heart asks, and so does who looks at the memory; what one heard holds for the other.
        if passed >= METERED:
            last[:] = [now, used]
            cpu = round(worked / passed, 3)
        return {"cpu": cpu, "rss": float(resident_bytes() or 0)}

    return read


def stack_reader() -> Callable[[], str]:
    """Return a function that tells, on any thread, where this thread is."""
    thread = threading.get_ident()

    def read() -> str:
        frame = sys._current_frames().get(thread)  # noqa: SLF001  the only way to see it
        frames = traceback.extract_stack(frame)[-STACK:] if frame is not None else []
        # In one line, as it goes into the log, the innermost first.
        return ", called from ".join(
            f"{each.filename}:{each.lineno} in {each.name}" for each in reversed(frames)
        )

    return read


def resident_bytes() -> int | None:
    """Return how much memory this process occupies, where that can be known."""
    try:
        pages = int((_PROC / "self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
