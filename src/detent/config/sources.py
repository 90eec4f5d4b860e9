"""Where settings come from: a file and the environment, as raw values with their place."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from detent.config.suggestions import Keys, meaning, nearest, not_needed, suggest
from detent.errors import ConfigError

FILE_NAME: Final = "detent.toml"
PREFIX: Final = "DETENT_"
SHORT: Final = {"DETENT_URL": ("store", "url")}
POOLS: Final = "pools"
QUEUES: Final = "queues"
# Sections of these have names of the user's choice; what one of each is, and such a name.
NAMED: Final = {POOLS: ("a pool", "reports"), QUEUES: ("a queue", "orders")}

_VARIABLE: Final = re.compile(r"\$\{([^}]*)(\}?)")
_BODY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
# Kubernetes sets such variables for a service that is called detent-node.
_FOREIGN: Final = re.compile(r"(service_(host|port)|port)(_.*)?")


class Raw(NamedTuple):
    """A value as it was found, and where."""

    section: str
    key: str
    value: Any
    source: str


def from_file(path: str | Path | None, environ: Mapping[str, str], valid: Keys) -> Iterator[Raw]:
    """Yield the settings of a file; without a path, of `detent.toml` here if there is one."""
    file = Path(path or FILE_NAME)
    if path is None and not file.is_file():
        return
    for section, table in _tables(file):
        kind = kind_of(section)
        if kind not in valid or not isinstance(table, dict):
            raise _unknown_section(file, section, table, valid)
        if kind != section:
            # There without any keys, too.
            yield Raw(section, "", None, str(file))
        for key, value in table.items():
            place = f"{file}: [{section}] {key}"
            if key not in valid[kind]:
                _refuse_needless(place, kind, key)
                raise _unknown(place, suggest(kind, key, valid), valid[kind])
            yield Raw(section, key, _expand(value, environ, place), str(file))


def any_of(kind: str) -> str:
    """Return how the keys of all sections of a kind are listed, whatever their names."""
    return f"{kind}.<name>"


def kind_of(section: str) -> str:
    """Return the section under which the keys of one are listed."""
    kind, dot, _ = section.partition(".")
    return any_of(kind) if dot and kind in NAMED else section


def as_variable(name: str) -> str:
    """Return a name as a variable says it, which has no `-`, `.` or upper case."""
    return re.sub(r"[.-]", "_", name.lower())


def from_environment(environ: Mapping[str, str], valid: Keys) -> Iterator[Raw]:
    """Yield the settings of `DETENT_<SECTION>_<KEY>`, then the short forms. Empty is unset."""
    for name in sorted(environ):
        ours = name.startswith(PREFIX) and name not in SHORT and environ[name]
        if ours and (setting := _setting_of(name, valid)):
            yield Raw(*setting, environ[name], name)
    for name, setting in SHORT.items():
        if environ.get(name):
            yield Raw(*setting, environ[name], name)


def _setting_of(name: str, valid: Keys) -> tuple[str, str] | None:
    """Return the section and key that a variable sets; None when it is somebody else's."""
    rest = name.removeprefix(PREFIX).lower()
    # The name of a section may have underscores, too: DETENT_RATE_LIMIT_MODE.
    known = (name for name in valid if rest.startswith(f"{name}_"))
    section = next(known, rest.partition("_")[0])
    key = rest.removeprefix(section).removeprefix("_")
    if section in NAMED and not _FOREIGN.fullmatch(key):
        return _named_setting_of(name, section, key, valid)
    if section not in valid:
        # DETENT_CONCURRENCY, DETENT_DATABASE_URL, DETENT_ULR: meant for us, so not to be ignored.
        if meant := meaning("", rest, valid) or _misspelt(name, valid):
            raise _unknown(name, meant, ())
        return None
    if key in valid[section]:
        return section, key
    if not key or _FOREIGN.fullmatch(key):
        return None
    _refuse_needless(name, section, key)
    raise _unknown(name, suggest(section, key, valid), valid[section])


def _misspelt(name: str, valid: Keys) -> tuple[str, str] | None:
    """Return the setting whose variable is almost of that name."""
    settings = [(section, key) for section, keys in valid.items() for key in keys]
    names = SHORT | {
        f"{PREFIX}{section}_{key}".upper(): (section, key) for section, key in settings
    }
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.88)
    return names[found[0]] if found else None


def _named_setting_of(name: str, kind: str, rest: str, valid: Keys) -> tuple[str, str]:
    """Return the section and key of `DETENT_POOLS_<NAME>_<KEY>`; both may have underscores."""
    for key in valid[any_of(kind)]:
        named = rest.removesuffix(f"_{key}")
        if named and named != rest:
            return f"{kind}.{named}", key
    raise ConfigError(
        f"{name}: unknown key; write {PREFIX}{kind.upper()}_<NAME>_<KEY> with one of "
        f"{', '.join(valid[any_of(kind)])}"
    )


def _tables(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the sections of a file, and each pool or queue as a section of its own."""
    for section, table in _parse(file).items():
        if section not in NAMED or not isinstance(table, dict):
            yield section, table
            continue
        one, example = NAMED[section]
        for name, content in table.items():
            if not isinstance(content, dict):
                raise ConfigError(
                    f"{file}: [{section}] {name}: {one} has a name: write [{section}.{example}], "
                    f"and {name} below it"
                )
            yield f"{section}.{name}", content


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error


def _expand(value: Any, environ: Mapping[str, str], place: str) -> Any:
    """Put variables into the strings of a value, however deep they stand."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, environ, place), value)
    if isinstance(value, list):
        return [_expand(item, environ, place) for item in value]
    if isinstance(value, dict):
        return {key: _expand(item, environ, place) for key, item in value.items()}
    return value


def _variable(found: re.Match[str], environ: Mapping[str, str], place: str) -> str:
    body = _BODY.fullmatch(found[1])
    if body is None or not found[2]:
        raise ConfigError(f"{place}: {found[0]} is no variable; write ${{NAME}} or ${{NAME:-text}}")
    name, default = body[1], body[2]
    value = environ.get(name) or default
    if value is None:
        raise ConfigError(
            f"{place}: the variable {name} is not set; set it or write ${{{name}:-default}}"
        )
    return value


def _unknown_section(file: Path, section: str, content: object, valid: Keys) -> ConfigError:
    if not isinstance(content, dict):
        if section in valid:
            return ConfigError(f"{file}: {section} must be a table: write it as [{section}]")
        return _unknown(f"{file}: {section}", suggest("", section, valid), ())
    for key in content:
        # [pool] size, [database] url: the pair says what was meant.
        if meant := meaning(section, key, valid):
            return _unknown(f"{file}: [{section}] {key}", meant, ())
    hint = nearest(section, list(valid))
    ending = f"did you mean [{hint}]?" if hint else f"the sections are {', '.join(valid)}"
    return ConfigError(f"{file}: [{section}]: unknown section; {ending}")


def _refuse_needless(place: str, section: str, key: str) -> None:
    """Raise with the reason for what other systems need and Detent does not."""
    if why := not_needed(section, key):
        raise ConfigError(f"{place}: not needed: {why}")


def _unknown(place: str, meant: tuple[str, str] | None, keys: Sequence[str]) -> ConfigError:
    """Make the error for an unknown key, in the words of where it stands."""
    if meant is None:
        ending = f"the keys are {', '.join(keys)}" if keys else "see the list of settings"
    else:
        section, key = meant
        ending = f"did you mean [{section}] {key}?"
        if place.startswith(PREFIX):
            ending = f"did you mean {_variable_name(section, key)}?"
    return ConfigError(f"{place}: unknown key; {ending}")


def _variable_name(section: str, key: str) -> str:
    short = [name for name, setting in SHORT.items() if setting == (section, key)]
    return short[0] if short else f"{PREFIX}{section}_{key}".upper()
