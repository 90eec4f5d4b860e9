"""Without this program `detent init` would write a detent.toml that names yesterday's settings."""

import textwrap
import tomllib
import typing
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum

from detent.config import PRESETS, SECTIONS, PollingConfig, format_duration
from detent.config.rules import format_rule
from detent.config.sections import Section
from detent.errors import ConfigError
from detent.model.retention import Rule

WIDTH = 96
HEAD = """\
# The settings of Detent. What is commented out is as it would be without this file, or an
# example where there is no default; remove the "#" in front of a key to set it.
#
# An option of the command beats a variable (DETENT_URL, DETENT_NODE_THREADS), a variable beats
# this file. Lengths of time are "250ms", "5s", "15m", "2h", "1d"; a string may hold ${NAME} or
# ${NAME:-default}, taken from the environment.
"""
TAIL = """
# Pools of threads or child processes that tasks choose by name have tables of their own, such as
# [pools.images] with kind = "process" and size = 4. So have queues that share fairly between keys:
# [queues.mail] with fair_key = "tenant" and weights = { gold = 3 }.
"""
#: What is shown where the default is nothing.
EXAMPLES = {
    ("store", "pooler"): '"auto"',
    ("node", "name"): '"worker-1"',
    ("node", "capabilities"): '["gpu"]',
    ("node", "queues"): "{ mail = 20, default = 50 }",
    ("node", "processes"): "4",
    ("node", "max_jobs"): "100_000",
    ("node", "max_rss"): '"1GB"',
    ("wakeup", "url"): '"redis://localhost:6379"',
    ("wakeup", "channel"): '"shop"',
    ("policy", "allow"): '["shop.*", "mail.send"]',
    ("policy", "deny"): '["shop.refund"]',
    ("encryption", "keys"): '""',
    ("encryption", "current"): '"k1"',
    ("redaction", "patterns"): '["[0-9]{4}-[0-9]{4}"]',
    ("redaction", "fields"): '["password", "card"]',
    ("retention", "queues"): '{ mail = { succeeded = "1d" } }',
}


def first_settings(docs: typing.Callable[[type], Mapping[str, str]]) -> str:
    """Return a detent.toml in which every setting stands, commented out."""
    parts = (part for kind in SECTIONS.values() for part in _section(kind, docs(kind)))
    return HEAD + "".join(parts) + TAIL


def _section(section: type[Section], docs: Mapping[str, str]) -> Iterator[str]:
    yield f"\n[{section.section}]\n"
    if section is PollingConfig:
        yield f"# Another rhythm to begin with: {', '.join(PRESETS)}.\n"
        yield '#preset = "default"\n'
    defaults = section()
    for key in section.names():
        default = getattr(defaults, key)
        shown = EXAMPLES.get((section.section, key)) or literal(default) or _some(section, key)
        read = section.read(key, tomllib.loads(f"{key} = {shown}")[key])
        note = "" if read == default else " For example:"
        prose = docs[key] + note
        yield "".join(f"{line}\n" for line in textwrap.wrap(f"# {prose}", WIDTH, **INDENT))
        yield f"#{key} = {shown}\n"


INDENT: typing.Any = {"subsequent_indent": "# ", "break_long_words": False}


def _some(section: type[Section], key: str) -> str:
    """Return something that a setting without a default takes."""
    for candidate in ('"auto"', '"1h"', "10", '["example"]'):
        try:
            section.read(key, tomllib.loads(f"{key} = {candidate}")[key])
        except ConfigError:
            continue
        return candidate
    raise AssertionError(f"give [{section.section}] {key} an example in tools/first_files.py")


def literal(value: object) -> str:
    """Return a value as TOML has it; nothing for nothing."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case timedelta():
            return f'"{format_duration(value)}"'
        case Rule():
            return f'"{format_rule(value)}"'
        case Enum() | str():
            return f'"{value}"'
        case tuple() if value:
            return f"[{', '.join(literal(entry) for entry in value)}]"
        case _:
            return ""
