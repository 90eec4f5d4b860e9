"""One statement, one file: loads `sql/<name>.sql` and puts the configured schema into it."""

import re
from functools import cache
from importlib.resources import files
from typing import Final

from detent.errors import ConfigError

_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_QUALIFIED: Final = re.compile(r"\bdetent\.(?=detent_)")


def check_schema_name(schema: str) -> str:
    """Return a schema name that is safe to put into a statement, or raise `ConfigError`."""
    if not _SCHEMA_NAME.fullmatch(schema):
        raise ConfigError(
            f"[store] schema = {schema!r}: must be 1 to 48 of a-z, 0-9 and _, not beginning with "
            "a digit"
        )
    return schema


def qualify(text: str, schema: str) -> str:
    """Put a schema into a statement that was written for the default schema."""
    return _QUALIFIED.sub(f'"{check_schema_name(schema)}".', text)


@cache
def statement(name: str, schema: str) -> str:
    """Return the statement in `sql/<name>.sql`, without its comments, for a schema."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    lines = [line.partition("--")[0].rstrip() for line in text.splitlines()]
    return qualify("\n".join(line for line in lines if line), schema)
