"""Each peer in a throw-away environment of its own, so that no two fight over a version."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench.adapter import URL
from bench.processes import output_of
from bench.subjects import Subject

INSTALL_WITHIN = 300.0
PYTHON = "BENCH_PYTHON"
ROOT = str(Path(__file__).resolve().parent.parent)


async def find_python() -> str:
    """Some peers need Python 3.12: the one named, else pyenv's, else python3.12, else ours."""
    if PYTHON in os.environ:
        return os.environ[PYTHON]
    for candidate in await _candidates():
        code, out, _ = await output_of([candidate, "--version"], dict(os.environ), 10)
        if code == 0 and "3.12" in out:
            return candidate
    return sys.executable


async def _candidates() -> list[str]:
    found = []
    if shutil.which("pyenv"):
        code, out, _ = await output_of(["pyenv", "root"], dict(os.environ), 10)
        if code == 0:
            found += [str(path) for path in _pyenv_pythons(Path(out.strip()))]
    return found + [path for path in [shutil.which("python3.12")] if path]


def _pyenv_pythons(root: Path) -> list[Path]:
    return sorted(root.glob("versions/3.12*/bin/python3"), reverse=True)


async def prepare(subject: Subject, python: str) -> tuple[str, str | None]:
    """The interpreter of a subject, and why there is none."""
    if subject.is_ours:
        return sys.executable, await _problem(subject)
    key = hashlib.sha256("\n".join([python, *subject.packages]).encode()).hexdigest()[:8]
    folder = Path(tempfile.gettempdir()) / "detent-bench" / f"{subject.name}-{key}"
    interpreter = str(folder / "bin" / "python")
    if _made(folder).exists():
        return interpreter, None
    shutil.rmtree(folder, ignore_errors=True)
    for argv in (
        [python, "-m", "venv", str(folder)],
        [interpreter, "-m", "pip", "install", "-q", *subject.packages],
    ):
        code, _, error = await output_of(argv, dict(os.environ), INSTALL_WITHIN)
        if code:
            return interpreter, (error.strip().splitlines() or ["not installed"])[-1]
    _made(folder).touch()
    return interpreter, None


async def _problem(subject: Subject) -> str | None:
    """Why a subject of this project cannot be imported here, if it cannot."""
    environment = {**os.environ, URL: "postgresql://127.0.0.1/nowhere", "PYTHONPATH": ROOT}
    argv = [sys.executable, "-c", f"import {subject.module}"]
    code, _, error = await output_of(argv, environment, 30)
    return (error.strip().splitlines() or ["it cannot be imported"])[-1] if code else None


def _made(folder: Path) -> Path:
    return folder / "made"


async def version(subject: Subject, interpreter: str) -> str:
    """The installed version of a subject and its Python, as its own environment says it."""
    if subject.distribution is None:
        return ""
    program = (
        "import importlib.metadata as m, platform as p;"
        f"print(m.version({subject.distribution!r}), 'on Python', p.python_version())"
    )
    _, out, _ = await output_of([interpreter, "-c", program], dict(os.environ), 20)
    return out.strip()
