"""Finds the file that a URL names, or says what is wrong with the URL."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from detent.errors import ConfigError

_URL: Final = re.compile(r"sqlite://(?P<host>[^/?#]*)(?:/(?P<path>[^?#]*))?(?P<rest>[?#].*)?")
_EXAMPLE: Final = "sqlite:///jobs.db (here) or sqlite:////var/lib/app/jobs.db (absolute)"


def path_of(url: str, schema: str = "detent") -> str:
    """Return the absolute path of the file in `sqlite:///relative` or `sqlite:////absolute`."""
    found = _URL.fullmatch(url)
    if found is None:
        raise _refused(url, f"is no URL of a file; write {_EXAMPLE}")
    if found["rest"]:
        raise _refused(url, f"takes no options, and here is {found['rest']!r}; leave it out")
    path = unquote(found["path"] or "")
    if found["host"] == ":memory:" or path == ":memory:" or not (path or found["host"]):
        raise _refused(
            url, "names no file; jobs that need not outlive the process belong into memory://"
        )
    if found["host"]:
        raise _refused(url, f"has too few slashes; write {_EXAMPLE}")
    if "\0" in path:
        raise _refused(url, "has a NUL in its path")
    if path.endswith("/") or Path(path).is_dir():
        raise _refused(url, "names a directory; add the name of a file")
    if schema != "detent":
        raise ConfigError(
            f"[store] schema = {schema!r}: SQLite has no schemas; use another file instead"
        )
    # Absolute from now on: the program may change its directory before the file is opened.
    return str(Path(path).absolute())


def _refused(url: str, why: str) -> ConfigError:
    return ConfigError(f"[store] url = {url!r}: {why}")
