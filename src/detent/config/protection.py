"""The sections about who may do what, and what nobody is to read."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final

from detent.config.readers import matching, optional, read_bool, read_duration, read_words
from detent.config.sections import Section
from detent.errors import ConfigError

KEY_SIZE: Final = 32
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_read_key_id: Final = matching(
    _KEY_ID.pattern, "must be 1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'"
)
_SHAPE: Final = "must be such as id:base64,id:base64 with 32 bytes each"


def read_patterns(value: Any) -> tuple[str, ...]:
    """Read regular expressions; a text is one of them, since they may have commas."""
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list | tuple):
        raise TypeError("must be a regular expression, or a list of them")
    for pattern in patterns:
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
        if compiled.search(""):
            raise ValueError(f"{pattern!r} fits nothing at all, and so between all characters")
    return tuple(patterns)


def read_names(value: Any) -> tuple[str, ...]:
    """Read names with `*` and `?`; an empty one would fit no name, and look like a rule."""
    names = read_words(value)
    if not all(names):
        raise ValueError("must hold no empty name")
    return names


def read_keys(value: Any) -> dict[str, bytes]:
    """Read `id:base64,id:base64`.

    No message tells anything of what is in it, not even what stands where an id should.
    """
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        pairs = [(part.partition(":")[0], part.partition(":")[2]) for part in parts]
    else:
        raise TypeError(_SHAPE)
    keys: dict[str, bytes] = {}
    for number, (key_id, secret) in enumerate(pairs, 1):
        if not secret or not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
            raise ValueError(f"{_SHAPE}; key {number} has no id of A-Z, a-z, 0-9, '_', '.', '-'")
        if key_id in keys:
            raise ValueError(f"the id of key {number} is given twice")
        keys[key_id] = _secret(number, secret)
    return keys


def _secret(number: int, value: Any) -> bytes:
    secret = value
    if isinstance(value, str):
        try:
            # Both alphabets; the end of it may be left out.
            text = value.replace("-", "+").replace("_", "/").rstrip("=")
            secret = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"key {number} is not base64; {_SHAPE}") from None
    if not isinstance(secret, bytes) or len(secret) != KEY_SIZE:
        size = len(secret) if isinstance(secret, bytes) else 0
        raise ValueError(f"key {number} has {size} bytes; {_SHAPE}")
    return secret


@dataclass(frozen=True, slots=True)
class PolicyConfig(Section):
    """`[policy]`: which tasks a node may run."""

    section: ClassVar[str] = "policy"

    allow: Annotated[tuple[str, ...], read_names] = ()
    """Names of the tasks that this node may run, with `*` and `?`; none is all of them."""
    deny: Annotated[tuple[str, ...], read_names] = ()
    """Names of tasks that it may not run, whatever `allow` says."""
    strict: Annotated[bool, read_bool] = False
    """Whether a node refuses to start without `allow`."""
    delay: Annotated[timedelta, read_duration] = timedelta(seconds=30)
    """After how long a job can be claimed again that went back because of this."""


@dataclass(frozen=True, slots=True)
class EncryptionConfig(Section):
    """`[encryption]`: whether arguments, results and errors are stored encrypted."""

    section: ClassVar[str] = "encryption"
    secret: ClassVar[frozenset[str]] = frozenset({"keys"})

    enabled: Annotated[bool, read_bool] = False
    """Whether all tasks are, but for those declared with `encrypted=False`."""
    # Not in repr(), nor in any message.
    keys: Annotated[Mapping[str, bytes], read_keys] = field(
        default_factory=dict, hash=False, repr=False
    )
    """The keys, as `"id:base64,id:base64"`, 32 bytes each; better given as a variable."""
    current: Annotated[str | None, optional(_read_key_id)] = None
    """The id of the key to encrypt with, if not the last one."""
    key_cache: Annotated[timedelta, read_duration] = timedelta(minutes=5)
    """How long a key is kept that a provider has told."""
    provider_timeout: Annotated[timedelta, read_duration] = timedelta(seconds=10)
    """How long a provider of keys may take."""

    def _check(self) -> None:
        if self.current is not None and self.keys and self.current not in self.keys:
            known = ", ".join(self.keys)
            raise ConfigError(
                f"[encryption] current = {self.current!r}: no key has this id; they are {known}"
            )


@dataclass(frozen=True, slots=True)
class RedactionConfig(Section):
    """`[redaction]`: what is taken out of errors and views."""

    section: ClassVar[str] = "redaction"

    secrets: Annotated[bool, read_bool] = True
    """Whether errors lose passwords in URLs, bearer tokens and what looks like `password=...`."""
    emails: Annotated[bool, read_bool] = False
    """Whether they lose e-mail addresses too."""
    patterns: Annotated[tuple[str, ...], read_patterns] = ()
    """Regular expressions whose matches they lose."""
    fields: Annotated[tuple[str, ...], read_names] = ()
    """Names of arguments, parameters and fields in them that no view shows."""
