"""The part of an app that is about the cluster: locks, leaders and daemons."""

from detent.daemons import Daemon, Daemons, DeclareDaemon, Registry, declare_with
from detent.fencing import Fencing
from detent.foundation import Foundation
from detent.leaders import Leaders
from detent.locks import DEFAULT_TTL, Lock, Locks
from detent.model.durations import Duration
from detent.spi.leadership import TermFence


class Clustered(Foundation):
    """What an `App` offers beside its jobs."""

    def __init__(self) -> None:
        super().__init__()
        self._daemons = Registry()
        self._locks: Locks | None = None
        self._leaders: Leaders | None = None
        self.node_info: dict[str, str] = {}
        """What nodes of this app say of themselves beside their Python and place; fill it before
        a node starts: `app.node_info["zone"] = "eu-1"`. `nodes.list()` shows it as `info`."""

    @property
    def locks(self) -> Locks:
        """All locks: look, take away."""
        if self._locks is None:
            with self._first_use.lock:
                if self._locks is None:
                    self._locks = self._make_locks()
        return self._locks

    def _make_locks(self) -> Locks:
        store = self.store
        return Locks(
            store,
            self._notifier,
            runtime=self._runtime,
            bus=self.bus,
            call=self._call,
            protection=self._protection,
        )

    def lock(
        self,
        name: str,
        *,
        ttl: Duration = DEFAULT_TTL,
        wait: Duration | None = None,
    ) -> Lock:
        """Return a lock that holds across processes: `async with app.lock("import") as lock: ...`.

        It is held for `ttl` and renewed in the background. `wait` is how long to wait for it, None
        for ever; then `LockTaken` is raised.
        """
        return self.locks.lock(name, ttl=ttl, wait=wait)

    @property
    def leaders(self) -> Leaders:
        """All leaders: look, and lead a role oneself."""
        if self._leaders is None:
            with self._first_use.lock:
                if self._leaders is None:
                    self._leaders = self._make_leaders()
        return self._leaders

    def _make_leaders(self) -> Leaders:
        store = self.store
        return Leaders(
            store,
            self._notifier,
            runtime=self._runtime,
            bus=self.bus,
            fence=self._fence,
            lease=self.config.cluster.leader_lease,
            protection=self._protection,
        )

    @property
    def daemons(self) -> Daemons:
        """All daemons: look."""
        return Daemons(self.store, self._daemons)

    @property
    def daemon(self) -> DeclareDaemon:
        """Declare a function of which one instance runs in the cluster: `@app.daemon`.

        A node that leads it runs it, and starts it again when it ends, after `restart_delay` that
        doubles up to `max_restart_delay`. It runs on nodes with the role `role` that offer what it
        `needs`. Told to stop, it may go on for `grace`.
        """
        return declare_with(self._add_daemon)

    def _add_daemon(self, daemon: Daemon) -> None:
        self._daemons.add(daemon)

    @property
    def _fence(self) -> TermFence:
        return Fencing(self.store)

    async def _release_all(self) -> None:
        """Give back what is held on this event loop."""
        if self._locks is not None:
            await self._locks.close()
        if self._leaders is not None:
            await self._leaders.close()
