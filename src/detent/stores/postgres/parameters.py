"""The parameters of a PostgreSQL URL: those of libpq, as far as our driver needs them.

The driver passes what it does not know on to the server as a setting, and the server refuses the
connection. So what only libpq knows is translated or dropped here, and what no one knows is
refused by its name.
"""

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus, urlsplit

from detent.errors import ConfigError

# What the driver reads itself, and `options`, which the server reads.
KEPT: Final = (
    "host",
    "port",
    "dbname",
    "database",
    "user",
    "password",
    "passfile",
    "service",
    "sslmode",
    "sslcert",
    "sslkey",
    "sslrootcert",
    "sslcrl",
    "sslpassword",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "target_session_attrs",
    "krbsrvname",
    "gsslib",
    "options",
)
TRANSLATED: Final = ("application_name", "fallback_application_name", "connect_timeout")
# Sockets: every call has a time limit of its own, and a host that does not answer is left. Hosts:
# all of them are asked, and the primary is taken. The rest is what the driver does anyway, or what
# it has no part in.
DROPPED: Final = (
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
    "load_balance_hosts",
    "channel_binding",
    "gssencmode",
    "gssdelegation",
    "client_encoding",
    "sslcompression",
    "sslcertmode",
    "sslsni",
)
KNOWN: Final = (*KEPT, *TRANSLATED, *DROPPED)
# Demands that cannot be met must not be dropped in silence.
REFUSED: Final = {
    "gssencmode": ("require", "encryption by GSSAPI cannot be had; use sslmode=require"),
    "replication": (None, "a store cannot use replication connections"),
    "requirepeer": (None, "cannot be checked; use sslmode=verify-full"),
    "require_auth": (None, "cannot be checked; use sslmode=verify-full"),
    "hostaddr": (None, "put the address in the place of the host"),
}
# Words of other tools.
ELSEWHERE: Final = {
    "schema": "[store] schema",
    "currentschema": "[store] schema",
    "search_path": "[store] schema",
    "pgbouncer": "[store] pooler",
    "connection_limit": "[store] pool_size",
    "pool_size": "[store] pool_size",
    "pool_timeout": "[store] timeout",
    "ssl": "sslmode=require",
}


class Prepared(NamedTuple):
    """A URL as the driver takes it, and what was taken out of it."""

    url: str
    application_name: str | None
    connect_timeout: float | None
    """Seconds; None when it says nothing about it."""


@lru_cache(maxsize=64)
def prepared(url: str) -> Prepared:
    """Return a URL for the driver, or raise `ConfigError` naming a parameter that is unknown."""
    parts = urlsplit(url)
    kept: list[str] = []
    taken: dict[str, str] = {}
    for pair in parts.query.split("&") if parts.query else ():
        raw_name, _, raw_value = pair.partition("=")
        name, value = unquote_plus(raw_name), unquote_plus(raw_value)
        _refuse(name, value)
        if name in KEPT:
            kept.append(pair)
        elif name in TRANSLATED:
            taken[name] = value
    called = taken.get("application_name") or taken.get("fallback_application_name") or None
    if (query := "&".join(kept)) != parts.query:
        url = url.partition("?")[0] + (f"?{query}" if query else "")
    return Prepared(url, called, _seconds(taken.get("connect_timeout")))


def with_parameters(url: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return what to connect to and how; what the URL says about it counts."""
    found = prepared(url)
    changed = dict(options)
    if found.application_name is not None:
        settings = changed.get("server_settings") or {}
        changed["server_settings"] = {**settings, "application_name": found.application_name}
    if found.connect_timeout is not None:
        changed["timeout"] = min(
            changed.get("timeout", found.connect_timeout), found.connect_timeout
        )
    return found.url, changed


def _refuse(name: str, value: str) -> None:
    if name in REFUSED:
        refused, why = REFUSED[name]
        if refused in (None, value):
            raise ConfigError(f"[store] url: {name}={value}: {why}")
    elif name not in KNOWN:
        raise ConfigError(f"[store] url: unknown parameter {name!r}: {_meant(name)}")


def _meant(name: str) -> str:
    if elsewhere := ELSEWHERE.get(name.lower()):
        return f"say {elsewhere}"
    if close := difflib.get_close_matches(name, KNOWN, 1, cutoff=0.8):
        return f"did you mean {close[0]}?"
    return f"for a setting of the server say options=-c%20{name}%3D..."


def _seconds(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = int(value)
    except ValueError:
        raise ConfigError(
            f"[store] url: connect_timeout = {value!r}: must be a whole number of seconds"
        ) from None
    # As in libpq: no limit, and not less than 2 s.
    return float(max(seconds, 2)) if seconds > 0 else None
