"""Finds the server that takes writes among those that a URL names, and leaves it when it has gone.

The driver tries the hosts of a URL one after the other within one timeout, so one that swallows
packets would hide the others. Here all are asked side by side, and the answer is remembered until
there is a reason to doubt it: a connection that broke or could not be made, a statement that waits
for too long. Of two servers that take writes, the one with the higher timeline is the primary.
"""

import asyncio
import re
import weakref
from functools import partial
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from detent.spawning import spawn_quietly
from detent.stores.postgres.answers import ELSEWHERE, NoPrimaryError, Place, Round, connect
from detent.stores.postgres.made import Connections

# A host that is up answers within this time.
KNOCK: Final = 5.0
# A statement that waits is a reason to ask the hosts, but no more often than this.
RECHECK: Final = 2.0
ATTRIBUTE: Final = "target_session_attrs"
TRIES: Final = 3

_LISTED: Final = re.compile(r"(?<=[?&])(host|port)=([^&]*)")


def hosts_in(url: str) -> list[str]:
    """Return a URL for each host that a URL names, as `a,b` or as `?host=a,b`."""
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2].split(",")
    listed = [found[2].split(",") for found in _LISTED.finditer(f"?{parts.query}")]
    count = max(len(values) for values in (named, *listed))
    return [url] if count == 1 else [_host(parts, number) for number in range(count)]


def _host(parts: SplitResult, number: int) -> str:
    """Return the URL of one host; what is said once is for all of them."""
    user, at, hosts = parts.netloc.rpartition("@")
    query = _LISTED.sub(lambda found: f"{found[1]}={_of(found[2], number)}", f"?{parts.query}")
    return urlunsplit((parts.scheme, f"{user}{at}{_of(hosts, number)}", parts.path, query[1:], ""))


def _of(values: str, number: int) -> str:
    each = values.split(",")
    return each[number] if number < len(each) else each[0]


class Hosts:
    """The servers of one URL, and all connections to them."""

    def __init__(self, url: str) -> None:
        self._urls = hosts_in(url)
        # The others are standbys, and we have something to write; unless the URL says otherwise.
        self._wants_primary = len(self._urls) > 1 and ATTRIBUTE not in url
        self._place: Place | None = None
        self._doubted = True
        self._settled_at = float("-inf")
        self._searches: weakref.WeakKeyDictionary[Any, asyncio.Task[Place]] = (
            weakref.WeakKeyDictionary()
        )
        self.connections = Connections()
        self.no_primary: NoPrimaryError | None = None
        """What the hosts said, while a standby is in use because none of them takes writes."""

    async def connect(self, timeout: float, **options: Any) -> Any:  # noqa: ASYNC109  the driver's own
        """Return a connection to the server that takes writes, or to the only one there is."""
        for _ in range(TRIES):
            was_doubted = self._doubted
            place = await self.place(timeout)
            try:
                connection = await self._open(place, timeout, options)
            except ELSEWHERE:
                self.doubt()
                if was_doubted or len(self._urls) == 1:
                    raise
                continue
            except asyncio.CancelledError:
                self.doubt()
                raise
            if place == self._place:
                self.connections.add(connection, place)
                return connection
            connection.terminate()  # another server was found meanwhile
        raise ConnectionError("the primary changes faster than connections are made")

    async def _open(self, place: Place, limit: float, options: dict[str, Any]) -> Any:
        if len(self._urls) > 1:
            limit = min(limit, KNOCK)
        if self._wants_primary and place.writable:
            options = {ATTRIBUTE: "read-write", **options}
        return await connect(self._urls[place.number], timeout=limit, **options)

    async def place(self, timeout: float) -> Place:  # noqa: ASYNC109  the driver's own
        """Return the server that is in use; search for it if that is in doubt."""
        if self._place is None or self._doubted:
            return await asyncio.shield(self._search(timeout))
        return self._place

    def doubt(self) -> None:
        """Ask all hosts before the next connection is made."""
        self._doubted = True

    def suspect(self, limit: float) -> None:
        """Ask all hosts now, in the background, since a statement has waited for long.

        If another server is found, the connections to this one are cut. Otherwise the statement is
        only slow, and nothing happens to it.
        """
        if asyncio.get_running_loop().time() - self._settled_at >= RECHECK:
            self.doubt()
            _ = self._search(limit)  # its result is kept

    def _search(self, limit: float) -> "asyncio.Task[Place]":
        """Return the search of this loop: all who wait for a connection share one.

        It goes on when its callers have lost their patience, so that the next find its result.
        """
        loop = asyncio.get_running_loop()
        search = self._searches.get(loop)
        if search is None or search.done():
            search = spawn_quietly(partial(self._found, limit), "detent-hosts")
            search.add_done_callback(_retrieve)
            self._searches[loop] = search
        return search

    async def _found(self, limit: float) -> Place:
        round_ = Round(self._urls, self._accepts)
        await round_.run(min(limit, KNOCK) if len(self._urls) > 1 else limit)
        self._settle(self._choose(round_))
        assert self._place is not None, "it was just settled"
        return self._place

    def _accepts(self, place: Place) -> bool:
        return not self._wants_primary or (place.writable and not self._is_outdated(place))

    def _is_outdated(self, place: Place) -> bool:
        """Return whether a server takes writes that has been replaced as the primary."""
        return self._place is not None and 0 < place.timeline < self._place.timeline

    def _choose(self, round_: Round) -> Place:
        """Return the newest of those that will do; at the same age, the one that is in use."""
        current = None if self._place is None else self._place.number
        accepted = round_.accepted()
        why = None if accepted else self._why(round_)
        self.no_primary = why if isinstance(why, NoPrimaryError) else None
        if why is None:
            return max(accepted, key=lambda p: (p.timeline, p.number == current, -p.number))
        if not self._has_had_a_primary() and round_.places:
            # Good enough for a look at jobs; what writes is told that this is a standby.
            return min(round_.places.values())
        raise why

    def _has_had_a_primary(self) -> bool:
        return self._place is not None and self._place.writable

    def _why(self, round_: Round) -> BaseException:
        """Return the error that says the most."""
        failures = round_.failures
        if len(self._urls) == 1:
            return failures.get(0) or TimeoutError()
        for error in failures.values():
            if not isinstance(error, ELSEWHERE):
                return error
        reasons = {number: _reason(error) for number, error in failures.items()}
        for number, place in round_.places.items():
            reasons[number] = (
                f"takes writes, but on timeline {place.timeline}: it is no longer the primary"
                if place.writable
                else "a standby"
            )
        silent = f"no answer within {KNOCK:g} s"
        everyone = range(len(self._urls))
        return NoPrimaryError(self._urls, {n: reasons.get(n, silent) for n in everyone})

    def _settle(self, place: Place) -> None:
        """Use a server from now on; connections to any other are cut."""
        has_moved, self._place = self._place not in (None, place), place
        self._settled_at = asyncio.get_running_loop().time()
        self._doubted = self._wants_primary and not place.writable
        if has_moved:
            self.connections.abort_all_but(place)

    async def close(self) -> None:
        """End the search of this loop, if there is one."""
        search = self._searches.pop(asyncio.get_running_loop(), None)
        if search is not None:
            search.cancel()
            await asyncio.wait([search])


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {KNOCK:g} s"
    return str(error).strip() or type(error).__name__


def _retrieve(search: "asyncio.Task[Place]") -> None:
    """Look at the error of a search that had no caller, or asyncio would complain about it."""
    if not search.cancelled():
        search.exception()
