"""One statement, one file: loads `sql/<name>.sql`, of several steps where SQLite needs them.

What PostgreSQL does in one statement takes SQLite several: it has no writing CTEs. They stand in
the same file, each under a line `-- step: <name>`.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Final

_STEP: Final = re.compile(r"^-- step: (\w+)$", re.MULTILINE)
_IDS: Final = re.compile(r"\bdetent_ids\((\?\d+)\)")
# SQLite has no arrays: many ids come as one blob, sixteen bytes each.
_UNPACKED: Final = """(
    WITH RECURSIVE place (number) AS (
        SELECT 0 WHERE length(\\1) >= 16
        UNION ALL
        SELECT number + 1 FROM place WHERE length(\\1) >= (number + 2) * 16
    )
    SELECT number, substr(\\1, number * 16 + 1, 16) AS id FROM place
)"""


@cache
def sql(name: str, step: str = "") -> str:
    """Return the statement in `sql/<name>.sql`, or one of its steps, without its comments."""
    steps = _steps(name)
    if step not in steps:
        raise KeyError(f"sql/{name}.sql has no step {step!r}; it has {', '.join(steps)}")
    return steps[step]


@cache
def _steps(name: str) -> dict[str, str]:
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    head, *rest = _STEP.split(text)
    if not rest:
        return {"": _plain(head)}
    return {step: _plain(body) for step, body in zip(rest[::2], rest[1::2], strict=True)}


def _plain(text: str) -> str:
    lines = [line.partition("--")[0].rstrip() for line in text.splitlines()]
    return _IDS.sub(_UNPACKED, "\n".join(line for line in lines if line))
