"""Finds the server that can be written to among several: without it, one that swallows packets
would hide the others.

The driver tries the hosts of a URL one after the other within one timeout; here each has its own,
and the one that answered last is asked first.
"""

import re
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import asyncpg

# A host that is up answers within this time; the others must not wait for one that is not.
KNOCK: Final = 5.0
ATTRIBUTE: Final = "target_session_attrs"

# What may be different at another host. A password that is wrong is wrong everywhere.
_ELSEWHERE: Final = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InvalidCatalogNameError,  # a standby may not know a new database yet
)
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
    """The servers of one URL."""

    def __init__(self, url: str) -> None:
        self._urls = hosts_in(url)
        self._last = 0
        self._several: dict[str, Any] = {}
        if len(self._urls) > 1 and ATTRIBUTE not in url:
            # The others are standbys, and we have something to write.
            self._several[ATTRIBUTE] = "read-write"

    async def connect(self, timeout: float, **options: Any) -> Any:  # noqa: ASYNC109  the driver's own
        """Return a connection to the first host that gives one, asking the last good one first."""
        if len(self._urls) == 1:
            return await asyncpg.connect(self._urls[0], timeout=timeout, **options)
        first, failure = self._last, None
        for number in range(first, first + len(self._urls)):
            host = number % len(self._urls)
            try:
                connection = await asyncpg.connect(
                    self._urls[host], timeout=min(timeout, KNOCK), **self._several, **options
                )
            except _ELSEWHERE as error:
                # A refusal says more than "this one is a standby".
                if failure is None or not _is_standby(error):
                    failure = error
            else:
                self._last = host
                return connection
        assert failure is not None, "there are several hosts"
        raise failure


def _is_standby(error: BaseException) -> bool:
    return isinstance(error, asyncpg.TargetServerAttributeNotMatched)
