"""The thread that notices what other processes have written, for those in this one who listen.

`PRAGMA data_version` changes with every commit of anybody else, and costs some microseconds to
ask. What is new is then read from the table of wake-ups. A change that brought none (a producer
was killed before it could tell, somebody used the sqlite3 shell) is passed on as "look for
yourself", at most once a second: heartbeats of others are such changes too.
"""

import sqlite3
import threading
import time
from typing import Any, Final

from detent.errors import StoreUnavailable
from detent.spi.notifier import Receive, Silence, Wake
from detent.stores.sqlite.connection import open_reader
from detent.stores.sqlite.failures import DRIVER_ERRORS, translate
from detent.stores.sqlite.keeper import Keeper
from detent.stores.sqlite.statements import sql
from detent.stores.sqlite.wakes import decode

# How often to ask: while there is news, and when there was none for a while.
LIVELY: Final = 0.02
QUIET: Final = 0.05
QUIET_AFTER: Final = 2.0
LOOK: Final = 1.0
RECONNECT: Final = 1.0


class Poller:
    """Watches the file for as long as somebody listens."""

    def __init__(self, path: str, origin: bytes, tell: Receive) -> None:
        self._path = path
        self._origin = origin
        self._tell = tell
        # Not an event: to wait for one costs twice as much as to sleep, twenty times a second.
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="detent-sqlite-wake", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; it ends at its next look."""
        self._stopped = True

    def join(self, patience: float) -> None:
        """Wait for the end."""
        self._thread.join(patience)

    def _run(self) -> None:
        keeper = Keeper(self._path)
        while not self._stopped:
            try:
                self._watch(keeper)
            except (*DRIVER_ERRORS, StoreUnavailable) as error:
                known = isinstance(error, StoreUnavailable)
                self._tell([Silence(str(error if known else translate(error, self._path)))])
                with keeper:
                    keeper.close()
                time.sleep(RECONNECT)
        with keeper:
            keeper.close()

    def _watch(self, keeper: Keeper) -> None:
        """Look again and again, until stopped."""
        told_at = looked_at = 0.0
        owing = False
        watched: sqlite3.Connection | None = None
        version, seen = 0, 0
        while not self._stopped:
            now = time.monotonic()
            with keeper:
                keeper.check()
                connection = keeper.connection("own", lambda: open_reader(self._path))
                current = _version(connection)
                if connection is not watched:
                    # What was written while nobody watched has to be looked for.
                    watched, version, seen = connection, current, _last(connection)
                    owing, looked_at = True, now - LOOK
                elif current != version:
                    version = current
                    seen, told = self._read(connection, seen)
                    told_at = now if told else told_at
                    owing = owing or not told
            if owing and now - looked_at >= LOOK:
                owing, looked_at = False, now
                self._tell(())
            time.sleep(LIVELY if now - told_at < QUIET_AFTER else QUIET)

    def _read(self, connection: sqlite3.Connection, seen: int) -> tuple[int, bool]:
        """Pass on what is new; return the last number seen, and whether something was new."""
        rows = connection.execute(sql("notify", "news"), (seen,)).fetchall()
        if not rows:
            return seen, False
        missed = rows[0][0] != seen + 1
        wakes: list[Wake] = []
        for _, origin, payload in rows:
            # Our own listeners were told at once.
            if origin != self._origin:
                found = decode(payload)
                wakes += found
                missed = missed or not found
        if wakes:
            self._tell(wakes)
        if missed:
            self._tell(())
        return rows[-1][0], True


def _version(connection: sqlite3.Connection) -> Any:
    return connection.execute("PRAGMA data_version").fetchone()[0]


def _last(connection: sqlite3.Connection) -> int:
    last: int = connection.execute(sql("notify", "last")).fetchone()[0]
    return last
