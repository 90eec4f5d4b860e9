"""A node inside a program of yours, from its start to its end."""

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

from detent import logs
from detent._engine.node import Node
from detent._engine.parts import NodeParts
from detent.config import Config
from detent.entries import Entries
from detent.events import Bus
from detent.serving import wants_all
from detent.spi.store import Store
from detent.subtasks import contain_subtasks


class Host(Protocol):
    """What a node needs of its app."""

    bus: Bus
    entries: Entries

    @property
    def store(self) -> Store:
        """The store."""

    def node_parts(self, config: Config, known_queues: Sequence[str] = ()) -> NodeParts:
        """Return what a node is made from."""


class RunningNode:
    """A node inside a program: `async with app.node(): ...`.

    It leaves by itself when it is drained from outside, or has had its `max_jobs` or `max_rss`;
    `wait_stopped()` returns when it is gone.
    """

    def __init__(self, app: Host, config: Config) -> None:
        self._app = app
        self._config = config
        self._node: Node | None = None
        self._uses_app = False

    @property
    def id(self) -> UUID | None:
        """The node's incarnation; None before it has started."""
        return None if self._node is None else self._node.identity.incarnation

    @property
    def was_sent_away(self) -> bool:
        """Whether it ends because somebody drained it by name: `app.nodes.drain(...)`."""
        return self._node is not None and self._node.was_sent_away

    @property
    def store_is_silent(self) -> bool:
        """Whether the store did not answer while the node ended."""
        return self._node is not None and self._node.store_is_silent

    async def start(self) -> None:
        """Open the store, join the cluster and begin to work."""
        # A mistake in the parts is told before anything is opened; unless all queues are wanted.
        known = await self._known_queues() if wants_all(self._config) else ()
        parts = self._app.node_parts(self._config, known)
        logs.attach(self._app.bus, clean=parts.clean)
        contain_subtasks()
        self._app.entries.enter()
        self._uses_app = True
        try:
            await self._app.store.open()
            self._node = Node(replace(parts, on_gone=self._leave_app))
            await self._node.start()
        except BaseException:
            await self._leave_app()
            raise

    async def _leave_app(self) -> None:
        """Count as a user of the app no longer, once."""
        if self._uses_app:
            self._uses_app = False
            await self._app.entries.leave()

    async def _known_queues(self) -> Sequence[str]:
        await self._app.store.open()
        return [queue.name for queue in await self._app.store.queues()]

    def stop(self, *, now: bool = False) -> None:
        """Make the node drain and end; safe to call from a signal handler."""
        if self._node is not None:
            self._node.stop(now=now)

    async def wait_stopped(self) -> None:
        """Return when the node is gone: after `stop()`, or because it was told to leave."""
        if self._node is not None:
            await self._node.wait_stopped()

    async def drain(self) -> None:
        """Drain and end now."""
        if self._node is not None:
            await self._node.drain()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.drain()
        finally:
            await self._leave_app()
