"""How a setting reads itself: from a value of its type, or from the text of a variable.

Each reader returns the value, or raises `ValueError` or `TypeError` with what would be valid.
"""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from detent.config.sizes import parse_size
from detent.errors import ConfigError
from detent.model.durations import parse_duration
from detent.model.limits import MAX_WEIGHT

MAX_SLOTS: Final = 100_000
MAX_LABEL: Final = 255
LEAST_MEMORY: Final = 16 << 20
ROLES: Final = ("worker", "scheduler", "gateway", "function")

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NODE_NAME: Final = re.compile(r"\S{1,255}")
_WORDS: Final = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}

Reader = Callable[[Any], Any]


def check_name(kind: str, value: object) -> str:
    """Return the name of a queue or a capability, or raise `ConfigError`.

    `+` is no part of a name: it joins a queue and the capabilities that a job needs.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ConfigError(f"{kind} {value!r}: must be 1 to 100 of A-Z, a-z, 0-9, '_', '.' and '-'")
    return value


def check_label(kind: str, value: object) -> str:
    """Return the name of a lock, a role or a daemon, or raise `ConfigError`."""
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= MAX_LABEL:
        shown = value if not isinstance(value, str) else value[: MAX_LABEL + 1]
        raise ConfigError(f"{kind} {shown!r}: must be 1 to {MAX_LABEL} printable characters")
    return value


def whole(low: int, high: int) -> Reader:
    """Return the reader of a whole number."""

    def read(value: Any) -> int:
        number = _whole(value)
        if number is None or not low <= number <= high:
            raise ValueError(f"must be a whole number from {low:,} to {high:,}")
        return number

    return read


def optional(reader: Reader) -> Reader:
    """Return a reader that lets None pass: a setting that need not be there."""
    return lambda value: None if value is None else reader(value)


def matching(pattern: str, valid: str) -> Reader:
    """Return the reader of a text that fits a pattern."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(valid)
        return value

    return read


def one_of(*words: str) -> Reader:
    """Return the reader of one of some words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def read_url(value: Any) -> str:
    """Return a URL without the driver that SQLAlchemy names in it: `postgresql+psycopg://`."""
    if not _is_url(value):
        raise ValueError("must be a URL such as postgresql://host/database")
    _check_ports(value)
    return re.sub(r"^([a-z0-9]+)\+[a-z0-9]+(?=:)", r"\1", value)


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(r"[a-z][a-z0-9+.-]*:\S+", value))


def _check_ports(url: str) -> None:
    """Refuse what a driver would take for a port: often the rest of a password with a slash."""
    # A file has no host; who reads such a URL says what is wrong with it.
    authority = re.match(r"(?!sqlite|memory)[^:]+:(?://([^/?#]*))?", url)
    hosts = (authority and authority[1]) or ""
    for host in hosts.rpartition("@")[2].split(","):
        port = host.rpartition("]")[2].partition(":")[2]
        if port and not (port.isdecimal() and 1 <= int(port) <= 65_535):
            raise ValueError(
                "must have a number from 1 to 65535 as its port; in a password write "
                "/ as %2F, ? as %3F, # as %23 and @ as %40"
            )


def read_carrier(value: Any) -> str:
    """Return what carries wake-ups: a URL, or "none"."""
    if value == "none":
        return "none"
    if not _is_url(value):
        raise ValueError('must be "none" or a URL such as redis://host:6379')
    return read_url(value)


def read_duration(value: Any) -> timedelta:
    length = parse_duration(value)
    if length <= timedelta(0):
        raise ValueError("must be longer than 0")
    return length


def read_duration_or_zero(value: Any) -> timedelta:
    length = parse_duration(value)
    if length < timedelta(0):
        raise ValueError("must be 0 or longer")
    return length


def read_memory(value: Any) -> int:
    """Read how much memory a process may use; with less, Python itself would not start."""
    size = parse_size(value)
    if size < LEAST_MEMORY:
        raise ValueError("must be 16MB or more")
    return size


def read_bool(value: Any) -> bool:
    found = _WORDS.get(str(value).strip().lower())
    if found is None:
        raise ValueError("must be true or false")
    return found


def read_pooler(value: Any) -> bool | None:
    if value is None or value == "auto":
        return None
    try:
        return read_bool(value)
    except ValueError as error:
        raise ValueError('must be true, false or "auto"') from error


def read_node_name(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _NODE_NAME.fullmatch(value):
        raise ValueError("must be 1 to 255 characters without spaces")
    return value


def read_words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",") if word.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise ValueError("must be a list of words")
    return tuple(dict.fromkeys(value))


def read_roles(value: Any) -> tuple[str, ...]:
    roles = read_words(value)
    if not roles or not set(roles) <= set(ROLES):
        raise ValueError(f"must be some of {', '.join(ROLES)}")
    return roles


def read_capabilities(value: Any) -> tuple[str, ...]:
    return tuple(_name("the capability", word) for word in read_words(value))


EVERY_QUEUE: Final = "*"


def read_queues(value: Any) -> dict[str, int]:
    """Read `{"mail": 20}`, `mail=20,default=50`, `*` or `mail=20,*=5`."""
    if isinstance(value, str):
        # All queues, each with `concurrency`: that is what 0 stands for.
        words = [word.strip() for word in value.split(",")]
        every = {EVERY_QUEUE: 0} if EVERY_QUEUE in words else {}
        rest = ",".join(word for word in words if word != EVERY_QUEUE)
        value = {**every, **(_pairs(rest, "the queue", "slots") if rest or not every else {})}
    if not isinstance(value, Mapping):
        raise TypeError("must name queues and their slots, such as mail=20,default=50")
    return {_queue(queue): _slots_of(queue, slots) for queue, slots in value.items()}


def _queue(name: Any) -> str:
    return EVERY_QUEUE if name == EVERY_QUEUE else _name("the queue", name)


def _slots_of(queue: str, slots: Any) -> int:
    return 0 if queue == EVERY_QUEUE and slots == 0 else _slots(queue, slots)


def read_weights(value: Any) -> dict[str, int]:
    """Read `{"gold": 3}` or `gold=3,silver=2`."""
    if isinstance(value, str):
        value = _pairs(value, "the key", "weight")
    if not isinstance(value, Mapping):
        raise TypeError("must name keys and their weights, such as gold=3,silver=2")
    return {str(key): _weight(key, weight) for key, weight in value.items()}


def _weight(key: str, value: Any) -> int:
    weight = _whole(value)
    if weight is None or not 1 <= weight <= MAX_WEIGHT:
        raise ValueError(f"the key {key!r} must weigh 1 to {MAX_WEIGHT:,}, not {value!r}")
    return weight


def _pairs(text: str, what: str, number: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            name, colon, value = pair.partition(":")
            if colon and _whole(value) is not None:
                raise ValueError(f"{pair!r} has no {number}; did you mean {name}={value}?")
            raise ValueError(f"{pair!r} has no {number}; write it such as {pair}=20")
        if name in pairs:
            raise ValueError(f"{what} {name!r} is named twice")
        pairs[name] = value
    return pairs


def _slots(queue: str, value: Any) -> int:
    slots = _whole(value)
    if slots is None or not 1 <= slots <= MAX_SLOTS:
        raise ValueError(f"the queue {queue!r} must have 1 to {MAX_SLOTS:,} slots, not {value!r}")
    return slots


def _whole(value: Any) -> int | None:
    """Return a whole number that is one or is written as one; `True` is neither."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _name(kind: str, value: object) -> str:
    try:
        return check_name(kind, value)
    except ConfigError as error:
        raise ValueError(str(error)) from error
