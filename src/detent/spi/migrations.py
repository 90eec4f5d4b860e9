"""The numbered steps of a store's schema, and the promise about them: one that was taken stays."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from detent.errors import SchemaMismatch

_FILE_NAME: Final = re.compile(r"V(\d{3})__(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step, as its file says."""

    version: int
    name: str
    text: str

    @property
    def label(self) -> str:
        """How people call it: `V001 core`."""
        return f"V{self.version:03} {self.name}"

    @property
    def checksum(self) -> str:
        """What is recorded, so that a step changed afterwards is noticed."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def migrations_of(package: str) -> Sequence[Migration]:
    """Return the steps that the package of a store brings, in order; they are read once."""
    steps = []
    for entry in files(package).joinpath("migrations").iterdir():
        if match := _FILE_NAME.fullmatch(entry.name):
            text = entry.read_text(encoding="utf-8")
            steps.append(Migration(int(match[1]), match[2], text))
    return tuple(sorted(steps, key=lambda step: step.version))


def untaken(steps: Sequence[Migration], applied: Mapping[int, str], place: str) -> list[Migration]:
    """Return the steps that a place has not taken, by what is recorded there: version to checksum.

    Raises `SchemaMismatch` if it is newer than this code, or was built by changed steps.
    """
    known = {step.version: step for step in steps}
    newer = sorted(version for version in applied if version not in known)
    if newer:
        raise SchemaMismatch(
            f"{place} has schema version {newer[-1]}, this code knows up to {max(known)}; "
            "upgrade the package: pip install --upgrade detent"
        )
    for version, checksum in applied.items():
        if known[version].checksum != checksum:
            raise SchemaMismatch(
                f"{known[version].label} in {place} is not the one in this package; "
                "restore the original file or ask for help before changing anything"
            )
    return [step for step in steps if step.version not in applied]
