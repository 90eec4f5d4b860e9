"""What a store remembers of daemons: where each runs, and how it is doing."""

from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from detent.spi.leadership import Term


class DaemonReport(NamedTuple):
    """What the node says that leads a daemon."""

    name: str
    state: str
    """"running", "restarting" (it waits after an end), "stopping" or "stopped"."""
    node_name: str
    restarts: int
    """How often it was started again under this term."""
    error: str | None = None
    """How its last run failed; None leaves what is known."""


class DaemonInfo(NamedTuple):
    """A daemon as people see it."""

    name: str
    state: str
    """As reported; "stopped" when the node that reported it no longer leads."""
    node: UUID | None
    node_name: str | None
    term: int | None
    since: datetime | None
    """Since when it has been in this state."""
    restarts: int
    last_error: str | None
    failed_at: datetime | None


class DaemonPort(Protocol):
    """What stands behind the context of a running daemon: its run in the engine."""

    @property
    def name(self) -> str: ...
    @property
    def node_id(self) -> UUID: ...
    @property
    def node_name(self) -> str: ...
    @property
    def term(self) -> int: ...

    def should_stop(self) -> bool:
        """Whether it was told to stop, or can no longer be sure that it leads; on any thread."""

    async def stopping(self) -> None:
        """Return when it was told to stop; on the node's event loop."""

    def wait(self, seconds: float | None) -> bool:
        """Wait on a thread until it was told to stop, or so long; return whether it was."""

    def write_log(self, level: str, message: str) -> None: ...
    async def fence(self, connection: Any) -> None: ...
    def fence_sync(self, connection: Any) -> None: ...


class DaemonStore(Protocol):
    """Keeps the reports."""

    async def save_daemon(self, term: Term, report: DaemonReport) -> bool:
        """Keep the latest report on a daemon; return False, and keep nothing, under an old term."""

    async def daemons(self) -> list[DaemonInfo]:
        """Return all daemons that were ever reported, by name."""
