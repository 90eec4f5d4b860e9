"""Bugs of others, kept as patches: a simulation that does not notice them has gone blind."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HUNT = HERE / "hunt.py"
#: How many seeds a mutant may survive: the engine changes, and then other seeds catch it.
FAST = 60
PATIENT = 3_000


class Rotten(AssertionError):
    """A patch that no longer fits the code it is to break."""


@dataclass(frozen=True)
class Mutant:
    """One bug."""

    name: str
    bug: str
    peers: str
    """Who had it."""
    rule: str
    """The rule that notices it."""
    seed: int | None
    """The seed that noticed it when this was written; None if a test notices it."""
    test: str | None
    """The test that notices it, where a simulation cannot: threads, connections, signals."""
    plan: Sequence[str]
    fast: bool
    """Whether a few seeds are enough to notice it."""
    path: Path


def load() -> list[Mutant]:
    """Return all mutants, in the order of their names."""
    return [_read(path) for path in sorted(HERE.glob("*.patch"))]


def _read(path: Path) -> Mutant:
    head = path.read_text().partition("\n--- ")[0]
    said = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    return Mutant(
        name=path.stem,
        bug=said["Bug"],
        peers=said["Peers"],
        rule=said["Rule"],
        seed=None if "Test" in said else int(said["Seed"]),
        test=said.get("Test"),
        plan=said.get("Plan", "").split(),
        fast=said.get("Fast", "yes") == "yes",
        path=path,
    )


@contextmanager
def planted(mutant: Mutant | None) -> Iterator[Path]:
    """Lend a copy of the sources, with the bug in it if one is given; the checkout stays clean."""
    with tempfile.TemporaryDirectory(prefix="detent-mutant-") as folder:
        # With the compiled files: most of them are still right, and importing is most of the work.
        shutil.copytree(ROOT / "src" / "detent", Path(folder, "src", "detent"))
        if mutant is not None:
            plant(mutant, Path(folder))
        yield Path(folder, "src")


def plant(mutant: Mutant, folder: Path, *options: str) -> None:
    """Apply the patch below a folder; with `--check` only see whether it could be."""
    done = subprocess.run(
        ["git", "apply", "-p1", "-C1", "--whitespace=nowarn", *options, str(mutant.path)],
        cwd=folder,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Rotten(f"{mutant.path.name} no longer applies: {done.stderr.strip()}")


def hunt(mutant: Mutant, limit: int) -> str | None:
    """Return what notices a mutant first: a seed, or its test; None if nothing does."""
    with planted(mutant) as source:
        if mutant.test is not None:
            return None if passes(mutant.test, source) else mutant.test
        done = subprocess.run(
            [sys.executable, HUNT, mutant.rule, str(limit), str(mutant.seed), *mutant.plan],
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise Rotten(f"{mutant.path.name} breaks more than it should:\n{done.stderr[-2000:]}")
    said = done.stdout.split()[-1]
    return None if said == "none" else said


def passes(test: str, source: Path) -> bool:
    """Return whether a test passes with these sources; it has to exist."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise Rotten(f"{test} cannot be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def keep(mutant: Mutant, noticed: str) -> None:
    """Write a seed that noticed a mutant into its patch."""
    if mutant.test is not None:
        return
    text = mutant.path.read_text()
    mutant.path.write_text(text.replace(f"\nSeed: {mutant.seed}\n", f"\nSeed: {noticed}\n", 1))


def table(mutants: Sequence[Mutant]) -> str:
    """Return the mutants as a table for people."""
    head = "| mutant | the bug, and who had it | the rule that notices it | seed, or test |"
    lines = [head, "|-|-|-|-|"]
    for each in mutants:
        proof = each.test or " ".join([str(each.seed), *each.plan])
        lines.append(f"| `{each.name}` | {each.bug}: {each.peers} | {each.rule} | `{proof}` |")
    return "\n".join(lines) + "\n"
