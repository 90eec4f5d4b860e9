"""Without this program the pages of docs/reference would say what the code once was.

    .venv/bin/python tools/reference.py           write them anew
    .venv/bin/python tools/reference.py --check   only say whether they are up to date

The tables come from the dataclasses themselves; a test compares.
"""

import ast
import dataclasses
import inspect
import logging
import re
import sys
import typing
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

from detent import events, logs
from detent.config import Config, PollingConfig, PoolConfig, QueueConfig, format_duration
from detent.config.rules import format_rule
from detent.config.sections import Section
from detent.config.sources import NAMED
from detent.errors import ConfigError
from detent.model.retention import Rule
from detent.model.state import diagram

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # a program that is started as a file sees only its own folder

from tools.commands import commands_page  # noqa: E402  found by the line above
from tools.first_files import first_settings  # noqa: E402
from tools.names import names_page  # noqa: E402

DOCS = ROOT / "docs"
FIRST = ROOT / "src" / "detent" / "cli" / "templates"
NOTE = "<!-- Made by tools/reference.py from the code: change it there. -->"
SHORT = {("store", "url"): "DETENT_URL"}
DIAGRAM = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.DOTALL)


def pages() -> dict[Path, str]:
    """The pages as the code says they should be."""
    life = DOCS / "internals" / "life-of-a-job.md"
    drawn = DIAGRAM.sub(lambda _: f"{diagram()}\n", life.read_text(encoding="utf-8"), count=1)
    return {
        DOCS / "reference" / "events.md": events_page(),
        DOCS / "reference" / "configuration.md": configuration_page(),
        DOCS / "reference" / "cli.md": commands_page(NOTE),
        DOCS / "reference" / "python.md": names_page(NOTE, table),
        FIRST / "detent.toml": first_settings(attribute_docs),
        life: drawn,
    }


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# Events


def events_page() -> str:
    kinds = [kind for kind in vars(events).values() if dataclasses.is_dataclass(kind)]
    jobs = [kind for kind in kinds if "job_id" in field_names(kind)]
    rest = [kind for kind in kinds if kind not in jobs]
    return f"""\
# Events

{NOTE}

Everything a node can tell about itself is a frozen dataclass in `detent.events`. With
`app.on(events.JobDied, listener)` a listener is called at once, on the thread that emits the event
(usually the event loop's), with every event of exactly that type, before what it speaks of is
written. It must not block; when it raises, `HookFailed` tells of it and nothing else happens. To be
told after the commit, of what happened to jobs, there are
[listeners, sinks and alerts](../guides/events.md).

A node writes events to the logger `detent` at the level given below. Those at `DEBUG` are listened
to only if that level was enabled when the node started, so that they cost nothing otherwise. The
event itself goes along as `record.event`.

`node` is always the incarnation of the node that tells; durations and delays are seconds.

## About jobs

{events_table(jobs)}

## About nodes and the store

{events_table(rest)}
"""


def events_table(kinds: Iterable[object]) -> str:
    return table(
        ("event", "means", "fields", "level"),
        (
            (
                f"`{kind.__name__}`",
                one_line(kind.__doc__),
                ", ".join(f"`{name}`" for name in field_names(kind)),
                logging.getLevelName(logs.LINES[kind][0]),
            )
            for kind in kinds
            if isinstance(kind, type)
        ),
    )


def field_names(kind: object) -> list[str]:
    assert isinstance(kind, type)
    assert dataclasses.is_dataclass(kind)
    return [field.name for field in dataclasses.fields(kind)]


# Settings


def configuration_page() -> str:
    hints = typing.get_type_hints(Config)
    # Of pools and queues there are as many as have names.
    names = [field.name for field in dataclasses.fields(Config) if field.name not in NAMED]
    kinds = [*(hints[name] for name in names), PoolConfig, QueueConfig]
    sections = "\n\n".join(section_part(kind) for kind in kinds)
    return f"""\
# Configuration

{NOTE}

Settings come from the argument of `App` or an option of the command, else from the environment,
else from `detent.toml` in the current directory, else from the defaults below. They are checked
when the app is made. A mistake is a `ConfigError` with the key, the value, where it stood and what
would be valid; an unknown key names the one that was probably meant.

- Durations are `"250ms"`, `"5s"`, `"15m"`, `"2h"`, `"1d"`, or several of these in a row; a bare
  number is seconds.
- Amounts of memory are `"64kB"`, `"512MB"`, `"2GB"`; a bare number is bytes.
- Strings in the file may hold `${{NAME}}` and `${{NAME:-default}}`, taken from the environment.
- Every setting has a variable `DETENT_<SECTION>_<KEY>`, such as `DETENT_NODE_THREADS`; the URL has
  the short one `DETENT_URL`. An empty variable counts as unset.
- Queues and lists are written `mail=20,default=50` and `gpu,big` in a variable.

{sections}

## Presets

`[polling] preset = "classic"` begins with another rhythm, of which single keys can still be set:

{presets_table()}
"""


def section_part(section: type[Section]) -> str:
    what = one_line(section.__doc__).partition(": ")[2]
    docs = attribute_docs(section)
    defaults = section()
    rows = (
        (f"`{key}`", shown(getattr(defaults, key)), docs[key], valid(section, key))
        for key in section.names()
    )
    heading = f"## [{section.section}]\n\n{what[:1].upper()}{what[1:]}\n\n"
    return heading + table(("key", "default", "meaning", "valid"), rows)


def attribute_docs(kind: type) -> dict[str, str]:
    """The docstrings that stand below the attributes of a class."""
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for before, statement in zip(tree.body, tree.body[1:], strict=False):
        match before, statement:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = one_line(text)
    return found


def valid(section: type[Section], key: str) -> str:
    """What a setting says when it is given something impossible."""
    try:
        section.read(key, object())
    except ConfigError as error:
        words = str(error.__cause__)
    else:
        raise AssertionError(f"[{section.section}] {key} accepts anything")
    words = re.sub(r"^must (be )?", "", words)
    return "a duration" if words.startswith("a duration") else words.replace("|", "\\|")


def presets_table() -> str:
    default, classic = PollingConfig(), PollingConfig.classic()
    rows = (
        (f"`{key}`", shown(getattr(default, key)), shown(getattr(classic, key)))
        for key in PollingConfig.names()
        if getattr(default, key) != getattr(classic, key)
    )
    return table(("key", "default", "classic"), rows)


def shown(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case timedelta():
            return f"`{format_duration(value)}`"
        case Rule():
            return f"`{format_rule(value)}`"
        case tuple() | Mapping():
            return ", ".join(f"`{entry}`" for entry in value) or "none"
        case int():
            return f"{value:,}"
        case _:
            return f"`{value}`"


def one_line(text: str | None) -> str:
    assert text, "a class or a setting without a docstring"
    return " ".join(text.split())


def written(page: Path) -> str | None:
    return page.read_text("utf-8") if page.is_file() else None


def main() -> int:
    outdated = [page for page, text in pages().items() if text != written(page)]
    if "--check" in sys.argv:
        print("\n".join(f"out of date: {page.relative_to(ROOT)}" for page in outdated))
        return int(bool(outdated))
    for page in outdated:
        page.write_text(pages()[page], encoding="utf-8")
        print(f"written: {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
