"""Programs of Debian packages, fetched and unpacked beside the tests, and never installed."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
DOWNLOADS: Final = ROOT / ".matrix"
PATIENCE: Final = 120.0
SEARCHED: Final = "/usr/sbin:/usr/local/sbin"


class MissingProgram(Exception):
    """A program is neither here nor can it be fetched; the message says what to do."""


class Program(NamedTuple):
    """Where a program is, and where the libraries are that the machine lacks."""

    path: Path
    libraries: str = ""


def find_program(name: str, package: str | None = None) -> Program:
    """Return a program of this machine, else of its Debian package."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SEARCHED}")
    if found:
        return Program(Path(found))
    package = package or name
    folder = DOWNLOADS / package
    if not folder.exists():
        _unpack(name, package, folder)
    libraries = sorted({str(path.parent) for path in folder.rglob("lib*.so*")})
    for directory in ("usr/sbin", "usr/bin"):
        if (folder / directory / name).exists():
            return Program(folder / directory / name, ":".join(libraries))
    raise MissingProgram(f"the package {package} brings no {name}; apt-get install {package}")


def _unpack(name: str, package: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise MissingProgram(f"no {name} here, and no apt-get and dpkg to fetch it with")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _fetch(package, partial)
    except subprocess.SubprocessError as error:
        raise MissingProgram(
            f"no {name} here, and its package cannot be fetched ({error}); "
            f"apt-get install {package}"
        ) from error
    # Renamed at the end, so that an interrupted download leaves nothing that looks complete.
    partial.rename(folder)


def _fetch(package: str, folder: Path) -> None:
    """Unpack the package, and those of the libraries that this machine lacks."""
    own: list[str] = []
    wanted = _packages(package, *own, check=False)
    if not wanted:
        # A machine that never asked for the lists of packages; ours are not its own.
        (folder / "lists" / "partial").mkdir(parents=True)
        own = ["-o", f"Dir::State::lists={folder / 'lists'}", "-o", "APT::Sandbox::User=root"]
        _run("apt-get", *own, "update")
        wanted = _packages(package, *own)
    _run("apt-get", *own, "download", *wanted, cwd=folder)
    for each in folder.glob("*.deb"):
        _run("dpkg", "-x", str(each), str(folder))
        each.unlink()
    shutil.rmtree(folder / "lists", ignore_errors=True)


def _packages(package: str, *options: str, check: bool = True) -> list[str]:
    """Return what would be installed."""
    command = ("apt-get", *options, "--simulate", "--no-install-recommends", "install", package)
    plan = _run(*command, check=check)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _run(*command: str, check: bool = True, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, check=check, timeout=PATIENCE, capture_output=True, text=True
    )
    return done.stdout
