"""If these fail, values change on their way through the store, or break it."""

import dataclasses
import enum
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.codecs import JsonCodec
from detent.errors import InvalidArguments

CODEC = JsonCodec()

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
FINITE = SCALARS.filter(lambda value: value not in (float("inf"), float("-inf")))
VALUES = st.recursive(
    FINITE, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=10
)


@given(VALUES)
def test_what_goes_in_comes_out(value: Any) -> None:
    assert CODEC.decode(CODEC.encode(value)) == value


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Address:
    street: str
    number: int | None = None


class Letter(msgspec.Struct):
    to: Address
    colour: Colour
    at: datetime


class Model:
    """What pydantic's models look like from outside."""

    def __init__(self, name: str) -> None:
        self.name = name

    def model_dump(self, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"name": self.name}

    @classmethod
    def model_validate(cls, value: Mapping[str, Any]) -> "Model":
        if set(value) != {"name"}:
            raise ValueError("needs a name")
        return cls(value["name"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]


MOMENT = datetime(2030, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value, type_",
    [
        (Address("Main Street", 5), Address),
        (Letter(Address("Main Street"), Colour.RED, MOMENT), Letter),
        (MOMENT, datetime),
        (date(2030, 5, 1), date),
        (timedelta(minutes=5), timedelta),
        (UUID(int=7), UUID),
        (Decimal("1.10"), Decimal),
        (b"\0\xff bytes", bytes),
        ((1, "two"), tuple[int, str]),
        ({3, 4}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ({1: "one"}, dict[int, str]),
        (Colour.RED, Colour),
        (1 << 100, int),
        ([Model("Ada")], list[Model]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_typed_values_come_back_as_what_they_were(value: Any, type_: Any) -> None:
    back = CODEC.decode(CODEC.encode(value), type_)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "value, path",
    [
        ("a\0", "$"),
        (["ok", "\ud800"], "$[1]"),
        ({"a": {"b": [0, float("nan")]}}, "$.a.b[1]"),
        ({"a": -float("inf")}, "$.a"),
        ({"a\0": 1}, "$"),
        ({"\udfff": 1}, "$"),
        ({"a": object()}, "$.a"),
        ([Address("a\0")], "$[0].street"),
        ({"m": Model("\ud800")}, "$.m.name"),
        ({"s": {float("nan")}}, "$.s[0]"),
        ({"f": lambda: None}, "$.f"),
        ({"e": ValueError("x")}, "$.e"),
    ],
)
def test_what_would_be_lost_or_refused_later_is_refused_now(value: Any, path: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        CODEC.encode(value)
    assert caught.value.path == path


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_depth_has_a_limit_that_is_allowed_itself(limit: int) -> None:
    codec = JsonCodec(limit)
    assert codec.decode(codec.encode(nested(limit))) == nested(limit)
    with pytest.raises(InvalidArguments, match=f"more than {limit} deep"):
        codec.encode(nested(limit + 1))


def test_depth_hidden_in_objects_counts_too() -> None:
    @dataclasses.dataclass
    class Node:
        inner: Any

    value: Any = None
    for _ in range(200):
        value = Node(value)
    with pytest.raises(InvalidArguments, match="100 deep"):
        CODEC.encode(value)


@given(st.binary())
def test_garbage_is_a_typed_error(data: bytes) -> None:
    try:
        CODEC.decode(data, dict[str, int])
    except InvalidArguments:
        return


@pytest.mark.parametrize(
    "data, type_, path",
    [
        (b'{"a": [1, "x"]}', dict[str, list[int]], "$[...][1]"),
        (b'{"to": {"street": 5}}', dict[str, Address], "$[...].street"),
        (b'"green"', Colour, "$"),
        (b"[1", list[int], "$"),
        (b'{"other": 1}', Model, "$"),
        (b"[" * 100_000, Any, "$"),
        (b"1e999", float, "$"),
    ],
)
def test_what_does_not_fit_says_where(data: bytes, type_: Any, path: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        CODEC.decode(data, type_)
    assert caught.value.path == path


def test_nothing_that_is_decoded_names_code() -> None:
    data = b'{"__class__": "os.system", "py/object": "os.system", "$type": "x"}'
    assert type(CODEC.decode(data)) is dict
