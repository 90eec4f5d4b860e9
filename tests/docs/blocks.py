"""Reads the fenced blocks of a page, with what its invisible comments say about running them.

An HTML comment in front of a block may hold

    <!-- test: name=orders, after=tasks, node -->   what it is called, which block comes before it,
                                                    and that a node runs meanwhile
    <!-- test: file=tasks.py -->                    it is a file: another test runs it as such
    <!-- setup ... -->                              Python that runs before it, unseen by readers
    <!-- check ... -->                              the same after it, behind the block
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "bench" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
#: Examples are run by tests of their own; what their pages say is looked at.
EXAMPLES: Final = [page for page in PAGES if ROOT / "examples" in page.parents]
#: Pages whose blocks run; the others are only looked at.
LIVING: Final = [
    page
    for page in PAGES
    if page.name != "CONTRIBUTING.md" and page.parent.name != "bench" and page not in EXAMPLES
]

_FENCE: Final = re.compile(r"^```(\w*)\s*$")
_MARKS: Final = re.compile(r"<!-- test: (.*?) -->")
_HIDDEN: Final = re.compile(r"<!-- (setup|check)\s*$")


@dataclass
class Code:
    """Some lines of a page, and where they begin."""

    line: int
    text: str


@dataclass
class Block:
    """One fenced block."""

    page: Path
    language: str
    shown: Code
    marks: dict[str, str] = field(default_factory=dict)
    setup: Code | None = None
    check: Code | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.shown.line}"

    def before(self) -> list["Block"]:
        """Return the blocks that must have run before this one, the first one first."""
        name = self.marks.get("after")
        if name is None:
            return []
        found = [block for block in blocks_of(self.page) if block.marks.get("name") == name]
        assert len(found) == 1, f"{self.place}: after={name}: {len(found)} blocks have that name"
        return [*found[0].before(), found[0]]


@cache
def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in their order."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    blocks: list[Block] = []
    marks: dict[str, str] = {}
    setup: Code | None = None
    for number, line in lines:
        if fence := _FENCE.match(line):
            shown = _until("```", number, lines)
            blocks.append(Block(page, fence[1], shown, marks, setup))
            marks, setup = {}, None
        elif told := _MARKS.match(line):
            pairs = (mark.strip().partition("=") for mark in told[1].split(","))
            marks = {key: value for key, _, value in pairs}
        elif hidden := _HIDDEN.match(line):
            code = _until("-->", number, lines)
            if hidden[1] == "setup":
                setup = code
            else:
                blocks[-1].check = code
        else:
            assert not line.startswith(("<!-- test", "<!-- setup", "<!-- check")), (page, number)
            assert not line.lstrip().startswith("```"), f"{page}:{number}: a fence of another kind"
            assert not (marks or setup) or not line.strip(), f"{page}:{number}: nothing to run"
    return blocks


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages that are in one of these languages."""
    return [block for page in LIVING for block in blocks_of(page) if block.language in languages]


def _until(end: str, number: int, lines: Iterator[tuple[int, str]]) -> Code:
    text: list[str] = []
    for _, line in lines:
        if line == end:
            return Code(number + 1, "\n".join(text) + "\n")
        text.append(line)
    raise AssertionError(f"line {number} opens what nothing closes with {end}")
