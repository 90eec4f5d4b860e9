"""Texts that people have agreed on, as files: `DETENT_UPDATE_SNAPSHOTS=1` writes them anew."""

import os
import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "snapshots"
UPDATE: Final = os.environ.get("DETENT_UPDATE_SNAPSHOTS") == "1"

_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def check(name: str, text: str) -> None:
    """Compare a text with its snapshot; colours and spaces at the ends of lines do not count."""
    plain = "".join(f"{line.rstrip()}\n" for line in _CODES.sub("", text).splitlines())
    file = FOLDER / f"{name}.txt"
    if UPDATE:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(plain)
    assert file.is_file(), f"{name}: no snapshot; DETENT_UPDATE_SNAPSHOTS=1 writes it"
    assert plain == file.read_text(), f"{name}: DETENT_UPDATE_SNAPSHOTS=1 writes it anew"
