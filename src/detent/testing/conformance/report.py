"""One word per promise: which of them a store keeps, for people who choose one."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from detent.testing.conformance import StoreConformance

_SUFFIX: Final = "Conformance"


class Verdict(StrEnum):
    """What the suite says about one capability."""

    PASS = "PASS"  # noqa: S105  not a password
    FAIL = "FAIL"
    MISSING = "MISSING"
    """No test asked about it."""
    NOT_APPLICABLE = "N-A"
    """Every test that asked was skipped."""


def report(*arguments: str) -> dict[str, Verdict]:
    """Run test modules that use the suite; `arguments` are those of pytest, paths first of all."""
    outcomes: dict[str, list[str]] = {name: [] for name in capabilities()}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "report.xml"
        # A process of its own: the caller's may have imported what pytest wants to import first.
        command = [sys.executable, "-m", "pytest", "--quiet", f"--junit-xml={path}", *arguments]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        tree = ElementTree.parse(path)  # noqa: S314  we have just had it written
    for case in tree.iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        capability = _capability_of(name)
        if capability is not None:
            outcomes[capability] += [child.tag for child in case] or ["passed"]
    return {name: _verdict(found) for name, found in outcomes.items()}


def capabilities() -> list[str]:
    """Return what the whole suite asks about, in its order."""
    return [each.__name__.removesuffix(_SUFFIX) for each in _classes()]


def _classes() -> list[type]:
    known = StoreConformance.__mro__
    return [each for each in known if each not in (StoreConformance, object)]


def _capability_of(test: str) -> str | None:
    """Return which promise a test asks about: that of the class which defines it."""
    for each in _classes():
        if test in vars(each):
            return each.__name__.removesuffix(_SUFFIX)
    return None


def _verdict(outcomes: Sequence[str]) -> Verdict:
    if not outcomes:
        return Verdict.MISSING
    if "failure" in outcomes or "error" in outcomes:
        return Verdict.FAIL
    return Verdict.PASS if "passed" in outcomes else Verdict.NOT_APPLICABLE
