"""If these fail, a task is called with other arguments than the caller gave."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.codecs import JsonCodec
from detent.context import JobContext
from detent.errors import ConfigError, InvalidArguments
from detent.signature import Signature

CODEC = JsonCodec()
CONTEXT: Any = object()


def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a function returns when it is called by way of the store."""
    signature = Signature(function, JobContext)
    data = signature.encode(CODEC, args, kwargs)
    positional, keywords = signature.decode(CODEC, data, CONTEXT)
    return function(*positional, **keywords)


def plain(a: int, b: str = "b", *, c: float = 1.0) -> Any:
    return a, b, c


def positional_only(a: int, b: int = 2, /, c: int = 3) -> Any:
    return a, b, c


def variadic(a: int = 1, b: int = 2, *rest: int, c: int = 3, **more: int) -> Any:
    return a, b, rest, c, more


def keywords(a: int = 1, b: int = 2, **more: int) -> Any:
    return a, b, more


def with_context(ctx: JobContext, a: int, *rest: int) -> Any:
    return ctx, a, rest


def context_in_the_middle(a: int, ctx: JobContext, b: int = 2) -> Any:
    return a, ctx, b


def context_by_name(a: int, *, ctx: JobContext) -> Any:
    return a, ctx


@pytest.mark.parametrize(
    "function, args, kwargs",
    [
        (plain, (1,), {}),
        (plain, (1, "x"), {"c": 2.5}),
        (plain, (), {"c": 2.5, "a": 1}),
        (positional_only, (1,), {}),
        (positional_only, (1, 5, 6), {}),
        (positional_only, (1,), {"c": 9}),
        (variadic, (), {}),
        (variadic, (), {"b": 5}),
        (variadic, (7, 8, 9, 10), {"c": 4, "d": 5}),
        (variadic, (7,), {"d": 5}),
        (keywords, (), {"b": 5}),
        (keywords, (), {"b": 5, "d": 6}),
        (keywords, (4,), {"d": 6}),
    ],
)
def test_a_call_by_way_of_the_store_is_the_same_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert called(function, *args, **kwargs) == function(*args, **kwargs)


@given(st.data())
def test_any_call_of_any_signature_is_the_same_call(data: st.DataObject) -> None:
    functions: list[Callable[..., Any]] = [positional_only, variadic, keywords]
    function = data.draw(st.sampled_from(functions))
    number = st.integers(-5, 5)
    args = data.draw(st.lists(number, max_size=4))
    kwargs = data.draw(st.dictionaries(st.sampled_from("abcd"), number))
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidArguments):
            called(function, *args, **kwargs)
        return
    assert called(function, *args, **kwargs) == function(*args, **kwargs)


def test_the_context_goes_where_the_function_wants_it() -> None:
    assert called(with_context, 1) == (CONTEXT, 1, ())
    assert called(with_context, 1, 2, 3) == (CONTEXT, 1, (2, 3))
    assert called(context_in_the_middle, 1) == (1, CONTEXT, 2)
    assert called(context_in_the_middle, 1, 3) == (1, CONTEXT, 3)
    assert called(context_by_name, a=1) == (1, CONTEXT)
    with pytest.raises(InvalidArguments):
        called(context_by_name, a=1, ctx=None)


def test_defaults_are_those_of_the_code_that_runs() -> None:
    def old(a: int = 1) -> int:
        return a

    def new(a: int = 2) -> int:
        return a

    data = Signature(old, JobContext).encode(CODEC, (), {})
    _, keywords = Signature(new, JobContext).decode(CODEC, data, None)
    assert new(**keywords) == 2


@dataclass
class Address:
    street: str


def typed(to: Address, tags: list[str], size: Annotated[int, msgspec.Meta(ge=1)] = 1) -> Any:
    return to, tags, size


def test_annotated_types_are_checked_and_restored() -> None:
    assert called(typed, Address("Main"), ["a"]) == (Address("Main"), ["a"], 1)
    assert called(typed, {"street": "Main"}, ("a",)) == (Address("Main"), ["a"], 1)


@pytest.mark.parametrize(
    "args, kwargs, path",
    [
        ((), {}, "arguments"),
        ((Address("Main"),), {}, "arguments"),
        ((Address("Main"), [], 1, 2), {}, "arguments"),
        ((Address("Main"), []), {"colour": "red"}, "arguments"),
        ((Address("Main"), [1]), {}, "$.tags[0]"),
        (({"street": None}, []), {}, "$.to.street"),
        ((Address("Main"), []), {"size": 0}, "$.size"),
        ((Address("a\0"), []), {}, "$.to.street"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        called(typed, *args, **kwargs)
    assert caught.value.path == path
    assert str(caught.value).startswith("typed(): ")


def test_a_stored_call_with_an_argument_too_many_does_not_fit() -> None:
    with pytest.raises(InvalidArguments, match="unknown field `b`"):
        Signature(lambda a: a, JobContext).decode(CODEC, b'{"a": 1, "b": 2}', None)


def test_functions_that_cannot_be_tasks_are_refused_when_they_are_declared() -> None:
    def two(one: JobContext, other: JobContext) -> None: ...

    def unresolved(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def impossible(a: list[int] | set[int]) -> None: ...

    for function in (two, unresolved, impossible):
        with pytest.raises(ConfigError) as caught:
            Signature(function, JobContext)
        assert function.__name__ in str(caught.value)
