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
    seed: int
    """The seed that noticed it when this was written."""
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
        seed=int(said["Seed"]),
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


def hunt(mutant: Mutant, limit: int) -> int | None:
    """Return the first seed that notices a mutant, or None if so many do not."""
    with planted(mutant) as source:
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
    return None if said == "none" else int(said)


def keep(mutant: Mutant, seed: int) -> None:
    """Write a seed that noticed a mutant into its patch."""
    text = mutant.path.read_text()
    mutant.path.write_text(text.replace(f"\nSeed: {mutant.seed}\n", f"\nSeed: {seed}\n", 1))


def table(mutants: Sequence[Mutant]) -> str:
    """Return the mutants as a table for people."""
    lines = ["| mutant | the bug, and who had it | the rule that notices it | seed |", "|-|-|-|-|"]
    for each in mutants:
        seed = " ".join([str(each.seed), *each.plan])
        lines.append(f"| `{each.name}` | {each.bug}: {each.peers} | {each.rule} | `{seed}` |")
    return "\n".join(lines) + "\n"
