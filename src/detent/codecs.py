"""JSON for arguments and results: typed on the way in, and nothing in it can name code to run.

Values are checked before they are encoded, since JSON would silently lose some (NaN becomes
null) and databases refuse others (NUL, lone surrogates).
"""

import math
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from detent.errors import InvalidArguments

_PATH: Final = re.compile(r" - at `(.+?)`$")
_REFUSALS: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_SCALARS: Final = (int, float, type(None), bytes)


class JsonCodec:
    """The default codec, on msgspec; dataclasses, attrs, pydantic, datetime, UUID, Enum and
    Decimal all work.
    """

    name = "json"

    def __init__(self, max_depth: int = 100) -> None:
        self._max_depth = max_depth
        self._encoder = msgspec.json.Encoder(enc_hook=_plain)
        self._ordered = msgspec.json.Encoder(enc_hook=_plain, order="deterministic")
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def encode(self, value: Any) -> bytes:
        """See `Codec.encode`."""
        if not self._is_plain(value, 0):
            self._check(value, "$", 0)
        try:
            return self._encoder.encode(value)
        except _REFUSALS as error:
            raise InvalidArguments(f"cannot be encoded as JSON: {error}") from error

    def canonical(self, value: Any) -> bytes:
        """See `Codec.canonical`."""
        try:
            return self._ordered.encode(value)
        except _REFUSALS as error:
            raise InvalidArguments(f"cannot be encoded as JSON: {error}") from error

    def decode(self, data: bytes, type_: Any = Any) -> Any:
        """See `Codec.decode`."""
        decoder = self._decoders.get(type_)
        if decoder is None:
            decoder = self._decoders[type_] = msgspec.json.Decoder(type_, dec_hook=_typed)
        try:
            return decoder.decode(data)
        except _REFUSALS as error:
            found = _PATH.search(str(error))
            path = found[1] if found else "$"
            raise InvalidArguments(f"{_PATH.sub('', str(error))} at {path}", path=path) from error

    def _is_plain(self, value: Any, depth: int) -> bool:
        """Whether there is surely nothing to complain about; `_check` takes ten times as long."""
        kind = type(value)
        if kind is str:
            return "\0" not in value and (value.isascii() or _is_encodable(value))
        if kind is int or value is None or kind is bool:
            return True
        if kind is float:
            return math.isfinite(value)
        if depth >= self._max_depth:
            return False
        if kind is dict:
            return self._are_plain(value, depth) and self._are_plain(value.values(), depth)
        return (kind is list or kind is tuple) and self._are_plain(value, depth)

    def _are_plain(self, values: Iterable[Any], depth: int) -> bool:
        is_plain, deeper = self._is_plain, depth + 1
        for value in values:  # noqa: SIM110  a generator takes longer
            if type(value) is not int and not is_plain(value, deeper):
                return False
        return True

    def _check(self, value: Any, path: str, depth: int) -> None:
        """Raise `InvalidArguments` for what JSON or a database would lose or refuse."""
        if isinstance(value, str):
            _check_text(value, path)
        elif isinstance(value, _SCALARS):
            _check_number(value, path)
        elif depth >= self._max_depth:
            raise InvalidArguments(
                f"nested more than {self._max_depth} deep at {path[:80]}", path=path[:80]
            )
        elif isinstance(value, dict):
            for key, entry in value.items():
                self._check(key, path, depth + 1)
                # The path is for complaints, and these give no reason for any.
                if not (entry is None or type(entry) is int):
                    self._check(entry, f"{path}.{key}", depth + 1)
        elif isinstance(value, (list, tuple, set, frozenset)):
            for index, entry in enumerate(value):
                self._check(entry, f"{path}[{index}]", depth + 1)
        else:
            self._check_object(value, path, depth)

    def _check_object(self, value: Any, path: str, depth: int) -> None:
        """Check what an object of another type turns into."""
        try:
            plain = msgspec.to_builtins(value, enc_hook=_plain)
        except _REFUSALS as error:
            raise InvalidArguments(
                f"a {type(value).__name__} at {path} cannot be encoded as JSON: {error}", path=path
            ) from error
        self._check(plain, path, depth + 1)


def _check_number(value: object, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArguments(f"{value} at {path} has no JSON form", path=path)


def _check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise InvalidArguments(f"a NUL character at {path}", path=path)
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments(
            f"a lone surrogate at {path}, character {error.start}", path=path
        ) from error


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Return a pydantic model as plain values; msgspec knows the other kinds itself."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"objects of type {type(value).__name__} have no JSON form")


def _typed(type_: Any, value: Any) -> Any:
    """Return plain values as a pydantic model, or as they are where anything will do."""
    if type_ is object:
        return value
    if hasattr(type_, "model_validate"):
        return type_.model_validate(value)
    raise TypeError(f"values of type {type_!r} cannot be read from JSON")
