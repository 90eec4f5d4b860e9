"""The jobs of a batch, as a function sees them that is given many at once."""

import inspect
import typing
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import UnionType
from typing import Any, Final, Generic, TypeVar, Union
from uuid import UUID

from detent.context import JobContext
from detent.control_flow import RetryAfter, Snooze
from detent.depends import dependencies_of, hints_of
from detent.errors import ConfigError, DetentError, InvalidArguments
from detent.signature import Signature, is_method
from detent.spi.codec import Codec

T = TypeVar("T")
_NOTHING: Final = object()


class BatchItem(Generic[T]):
    """One job of a batch: what it was given, and what becomes of it.

    An item that nothing is said about ends as the call does: with its place in the list that the
    function returns, with success when that is None, with the error when it raises. The last word
    counts. Tests may make items themselves: `BatchItem("value")`.
    """

    __slots__ = ("_context", "_result", "error", "value")

    def __init__(self, value: T, context: JobContext | None = None) -> None:
        self.value = value
        """The argument of `enqueue()`."""
        self.error: BaseException | None = None
        """Why this item fails or comes back, if that was said."""
        self._context = context
        self._result: Any = _NOTHING

    @property
    def ctx(self) -> JobContext:
        """The context of this job: its id, attempt, tags, log, progress."""
        if self._context is None:
            raise DetentError("a BatchItem that was made by hand has no job")
        return self._context

    @property
    def job_id(self) -> UUID:
        """The id of the job."""
        return self.ctx.job_id

    @property
    def canceled(self) -> bool:
        """Whether this job was canceled, or lost, while the batch runs: nobody waits for it."""
        return self._context is not None and self._context.cancel_requested

    def succeed(self, result: Any = None) -> None:
        """End this job well, with a result."""
        self._result, self.error = result, None

    def fail(self, error: BaseException) -> None:
        """Treat this job as if it had raised this: retried by its policy, `Fail` never."""
        if not isinstance(error, BaseException):
            raise TypeError(f"fail({error!r}): must be given an exception")
        self._result, self.error = _NOTHING, error

    def retry_after(self, wait: timedelta, message: str = "") -> None:
        """Count this attempt as failed, and try again after this wait if attempts are left."""
        self.fail(RetryAfter(wait, message))

    def snooze(self, wait: timedelta) -> None:
        """Let this job come back later; this was not an attempt."""
        self.fail(Snooze(wait))

    @property
    def decided(self) -> bool:
        """Whether something was said about this item."""
        return self.error is not None or self._result is not _NOTHING

    @property
    def result(self) -> Any:
        """What `succeed` was given, else None."""
        return None if self._result is _NOTHING else self._result

    def __repr__(self) -> str:
        return f"<BatchItem {self.value!r}>"


class ItemSignature(Signature):
    """What one job of a batch task takes: the value of a `BatchItem`, and nothing else."""

    def __init__(self, function: Callable[..., Any], context_type: type) -> None:
        name = getattr(function, "__qualname__", repr(function))
        hints = hints_of(function)
        method = is_method(function)
        parameters = dict(list(inspect.signature(function).parameters.items())[method:])
        injected = dependencies_of(parameters, hints, name)
        own = [each for each in parameters if each not in injected]
        if len(own) != 1:
            found = ", ".join(own) or "nothing"
            raise ConfigError(f"{name}(): a batch task takes one list[BatchItem[...]], not {found}")
        type_ = _item_type(hints.get(own[0]), name)
        super().__init__(_single(name, type_, hints.get("return", Any)), context_type)
        self.injected, self.is_method = injected, method
        self.has_defaults_to_make = bool(injected)
        # By any name: it may have been a task for single jobs before, with a word of its own.
        self._single: Any = dict.__class_getitem__((str, type_))

    def decode(self, codec: Codec, data: bytes, _context: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the value of a stored call, as the only argument."""
        arguments = codec.decode(data, self._single)
        if len(arguments) != 1:
            raise InvalidArguments(f"a batch task takes one value, not {len(arguments)}", path="")
        return list(arguments.values()), {}


def _item_type(hint: Any, name: str) -> Any:
    """Return what the items of a list hold."""
    if typing.get_origin(hint) in (list, Sequence):
        (inner,) = typing.get_args(hint)
        if inner is BatchItem:
            return Any
        if typing.get_origin(inner) is BatchItem:
            return typing.get_args(inner)[0]
    raise ConfigError(f"{name}(): the parameter of a batch task must be a list[BatchItem[...]]")


def _single(name: str, type_: Any, returned: Any) -> Callable[..., Any]:
    """Return a function that takes one item and returns its result, for its signature only."""

    def single(item: Any) -> Any:
        raise AssertionError(f"{name}() is called with whole batches, not with {item!r}")

    single.__qualname__ = name
    single.__annotations__ = {"item": type_, "return": _result_type(returned)}
    return single


def _result_type(returned: Any) -> Any:
    """Return what each item is promised: the R of `list[R]`, also of `list[R] | None`."""
    if typing.get_origin(returned) in (Union, UnionType):
        parts = [part for part in typing.get_args(returned) if part is not type(None)]
        returned = parts[0] if len(parts) == 1 else Any
    if isinstance(typing.get_origin(returned), type) and issubclass(
        typing.get_origin(returned), Sequence
    ):
        found = typing.get_args(returned)
        return found[0] if len(found) == 1 else Any
    return Any
