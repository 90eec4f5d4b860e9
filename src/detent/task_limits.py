"""The limits that a task is declared with, and the gates that follow for each of its calls."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from detent.config import check_name
from detent.errors import ConfigError, InvalidJob
from detent.model.gates import FAIR, RATE, RESOURCE, TASK, Gate, gate_name
from detent.model.limits import MAX_CONCURRENCY, MAX_WEIGHT, Limit
from detent.model.rates import Rate

KeyFunction = Callable[..., Any]

MAX_KEY: Final = 255
OPTIONS: Final = (
    "resource",
    "weight",
    "concurrency",
    "concurrency_key",
    "ordered",
    "rate",
    "rate_key",
    "fair_key",
)


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """What limits the jobs of a task."""

    task: str
    resource: str | None = None
    weight: int = 1
    concurrency: int | None = None
    concurrency_key: KeyFunction | None = None
    ordered: bool | None = None
    """None: in order where each key has a concurrency of 1."""
    rate: Rate | None = None
    rate_key: KeyFunction | None = None
    fair_key: KeyFunction | None = None

    def __post_init__(self) -> None:
        if self.resource is not None:
            check_name("resource", self.resource)
        if type(self.weight) is not int or not 1 <= self.weight <= MAX_WEIGHT:
            raise ConfigError(f"weight = {self.weight!r}: must be 1 to {MAX_WEIGHT:,}")
        if self.weight > 1 and self.resource is None:
            raise ConfigError(f"weight = {self.weight}: weighs nothing without resource=")
        for key, of in (("concurrency_key", "concurrency"), ("rate_key", "rate")):
            if getattr(self, key) is not None and getattr(self, of) is None:
                raise ConfigError(f"{key} without {of}=: give the {of} that each key may have")
        self._check_order()
        try:
            self.definitions()
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @property
    def keyed(self) -> bool:
        """Whether calls with other arguments may stand behind other gates."""
        return any((self.concurrency_key, self.rate_key, self.fair_key))

    @property
    def in_order(self) -> bool:
        """Whether a job that is put back holds back the later ones of its key."""
        if self.ordered is None:
            return self.concurrency == 1 and self.concurrency_key is not None
        return self.ordered

    def _check_order(self) -> None:
        if self.ordered is not None and type(self.ordered) is not bool:
            raise ConfigError(f"ordered = {self.ordered!r}: must be True or False")
        if self.ordered and self.concurrency != 1:
            raise ConfigError(
                f"ordered = True with concurrency = {self.concurrency!r}: only what runs one at a "
                "time keeps its order; say concurrency=1"
            )

    def definitions(self) -> list[Limit]:
        """Return what the store has to know, but for the resource."""
        limits = []
        if self.concurrency is not None:
            name = self._name(TASK, self.concurrency_key)
            limits.append(Limit(name, concurrency=self.concurrency, ordered=self.in_order))
        if self.rate is not None:
            limits.append(Limit(self._name(RATE, self.rate_key), rate=self.rate))
        return limits

    def gates(self, queue: str, arguments: Mapping[str, Any]) -> list[Gate]:
        """Return the gates that a call has to pass."""
        gates = []
        if self.resource is not None:
            gates.append(Gate(gate_name(RESOURCE, self.resource), self.weight))
        if self.concurrency is not None:
            key = self._key("concurrency_key", arguments)
            gates.append(Gate(gate_name(TASK, self.task, key)))
        if self.rate is not None:
            gates.append(Gate(gate_name(RATE, self.task, self._key("rate_key", arguments))))
        if self.fair_key is not None:
            gates.append(self._fair(queue, arguments))
        return gates

    def _name(self, kind: str, key: KeyFunction | None) -> str:
        return gate_name(kind, self.task, None if key is None else "")

    def _fair(self, queue: str, arguments: Mapping[str, Any]) -> Gate:
        value = call_key("fair_key", self.task, self.fair_key, arguments)
        key, weight = split_weight(self.task, value)
        return Gate(gate_name(FAIR, queue, key_text("fair_key", self.task, key)), weight)

    def _key(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        function = getattr(self, name)
        if function is None:
            return None
        return key_text(name, self.task, call_key(name, self.task, function, arguments))


def call_key(name: str, task: str, function: Any, arguments: Mapping[str, Any]) -> Any:
    """Return what a function says is the key of a call, or raise `InvalidJob` that names it."""
    try:
        return function(**_taken_by(function, arguments))
    except Exception as error:
        called = getattr(function, "__qualname__", repr(function))
        raise InvalidJob(
            f"{name} of {task}, {called}, raised {type(error).__name__}: {error}", path=name
        ) from error


def split_weight(task: str, value: Any) -> tuple[Any, int]:
    """Return the key of a fair share, and its weight if it came with one."""
    if not isinstance(value, tuple):
        return value, 1
    if len(value) != 2 or type(value[1]) is not int or not 1 <= value[1] <= MAX_WEIGHT:
        raise InvalidJob(
            f"fair_key of {task} returned {value!r}: must be a key, or a key and a "
            f"weight of 1 to {MAX_WEIGHT:,}",
            path="fair_key",
        )
    key, weight = value
    return key, weight


def key_text(name: str, task: str, value: Any) -> str:
    """Return a key as a text, or raise `InvalidJob` with what is wrong about it."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InvalidJob(
            f"{name} of {task} returned {value!r}: must be a text or a whole number", path=name
        )
    text = str(value)
    if len(text) > MAX_KEY:
        raise InvalidJob(
            f"{name} of {task} returned {text[:40]!r}...: {len(text)} characters, the "
            f"limit is {MAX_KEY}",
            path=name,
        )
    if not text.isprintable():
        raise InvalidJob(
            f"{name} of {task} returned {text!r}: has unprintable characters", path=name
        )
    return text


def limits_of(task: str, options: dict[str, Any]) -> TaskLimits | None:
    """Take the limits out of the options of a task; return None when there are none."""
    given = {name: options.pop(name) for name in OPTIONS if name in options}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return None
    concurrency = given.get("concurrency", 1)
    if type(concurrency) is not int or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise ConfigError(f"concurrency = {concurrency!r}: must be 1 to {MAX_CONCURRENCY:,}")
    if "rate" in given and not isinstance(given["rate"], Rate):
        raise ConfigError(f"rate = {given['rate']!r}: must be a Rate(...)")
    return TaskLimits(task, **given)


def check_keys(limits: TaskLimits | None, names: Sequence[str]) -> None:
    """Refuse key functions that cannot be called with the arguments of their task."""
    if limits is None:
        return
    for name in ("concurrency_key", "rate_key", "fair_key"):
        if (function := getattr(limits, name)) is not None:
            _check_key(limits.task, name, function, names)


def _check_key(task: str, name: str, function: Any, names: Sequence[str]) -> None:
    if not callable(function):
        raise ConfigError(f"{name} = {function!r}: must be a function of the task's arguments")
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.name not in names and parameter.default is parameter.empty:
            known = ", ".join(names) or "none"
            raise ConfigError(
                f"{name} takes {parameter.name!r}, which is no argument of {task}: it has {known}"
            )


def _taken_by(function: KeyFunction, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those of the arguments that a function takes."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return arguments
    return {name: arguments[name] for name in parameters if name in arguments}
