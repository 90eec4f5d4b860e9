"""What makes two failures the same one: without it every failed job would be news of its own.

Two failures are alike when a task raised the same kind of exception at the same place of its own
code with the same words, apart from what differs from job to job: numbers, ids, addresses, quoted
values.
"""

import hashlib
import re
from typing import Final, NamedTuple

MESSAGE_LIMIT: Final = 300

_FRAME: Final = re.compile(r'^\s*File "(?P<path>[^"]+)", line \d+, in (?P<name>.+)$', re.MULTILINE)
# Code that is nobody's own: of the interpreter, of installed packages, of Detent around a task.
_FOREIGN: Final = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python\d|^<|/detent/(_engine|executors|context\.py)"
)
# Digits alone are a long number.
_UUID: Final = re.compile(
    r"\b(?!\d{32}\b)[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b", re.IGNORECASE
)
# Long words with digits between letters, such as ULIDs and what payment providers use; a name of
# code mostly ends with its number.
_TOKEN: Final = re.compile(r"\b(?=\w*[a-z]\d+[a-z])\w{16,}\b", re.IGNORECASE | re.ASCII)
_ADDRESS: Final = re.compile(r"(?<![\w.+-])[\w.+-]+@\w+(?:[.-]\w+)*")
# An apostrophe inside a word opens nothing.
_QUOTED: Final = re.compile(r"(?<!\w)(['\"`])(?:(?!\1).)*\1(?!\w)", re.DOTALL)
_HEX: Final = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", re.I)
_NUMBER: Final = re.compile(r"[+-]?\d+(?:[.,:_]\d+)*")
_SPACE: Final = re.compile(r"\s+")


class Fingerprint(NamedTuple):
    """What a failure has in common with others of its kind."""

    digest: str
    type: str
    message: str
    """The words without what differs from job to job."""
    frame: str
    """Where the task's own code was: `mail/send.py:deliver`; empty when that is not known."""


def fingerprint(kind: str, message: str, traceback: str = "") -> Fingerprint:
    """Return the fingerprint of an exception in words, as they are stored."""
    words, frame = normalised(message), own_frame(traceback)
    digest = hashlib.sha256(f"{kind}\0{words}\0{frame}".encode()).hexdigest()
    return Fingerprint(digest[:16], kind, words, frame)


SUMMARY: Final = "*"
"""The digest of all failures of a task that are of too many kinds to be told one by one."""


def summary(most_kinds: int) -> Fingerprint:
    """Return the fingerprint of failures beyond `most_kinds` kinds in one window."""
    words = f"more than {most_kinds} kinds of failures in one window; this counts all others"
    return Fingerprint(SUMMARY, "ManyKinds", words, "")


def normalised(message: str) -> str:
    """Return a message without numbers, ids, addresses and quoted texts."""
    text = message[: 4 * MESSAGE_LIMIT]
    text = _UUID.sub("<id>", text)
    text = _QUOTED.sub("<text>", text)
    text = _ADDRESS.sub("<address>", text)
    text = _HEX.sub("<hex>", text)
    text = _TOKEN.sub("<id>", text)
    text = _NUMBER.sub("<n>", text)
    return _SPACE.sub(" ", text).strip()[:MESSAGE_LIMIT]


def own_frame(traceback: str) -> str:
    """Return the innermost place in the task's own code, without its line: lines move."""
    frames = [
        (found["path"].replace("\\", "/"), found["name"]) for found in _FRAME.finditer(traceback)
    ]
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    if not frames:
        return ""
    path, name = (own or frames)[-1]
    # Machines keep the same code in different folders.
    return f"{'/'.join(path.split('/')[-2:])}:{name.strip()}"
