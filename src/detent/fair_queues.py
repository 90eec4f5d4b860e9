"""Queues that share fairly between keys, and the gates that follow for each call."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from detent.config import check_name
from detent.errors import ConfigError, InvalidJob
from detent.model.gates import FAIR, Gate, gate_name, written
from detent.model.limits import Limit
from detent.task_limits import MAX_KEY, KeyFunction, TaskLimits, call_key, key_text, split_weight

# What an index of the database can hold with room to spare.
MAX_GATES: Final = 2_000
_FIELD: Final = "fair_key"


@dataclass(frozen=True, slots=True)
class FairQueue:
    """A queue whose jobs have their turns by key, whatever task they are of."""

    queue: str
    fair_key: str | KeyFunction
    """The name of an argument, or else of a tag `name:key`; or a function of the arguments."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """How many turns some keys have for each of another."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        if not (callable(self.fair_key) or _is_name(self.fair_key)):
            raise ConfigError(
                f"fair_key = {self.fair_key!r} of the queue {self.queue}: must be the name of an "
                "argument (or of a tag, as in tenant:acme), or a function of arguments"
            )
        if not isinstance(self.weights, Mapping):
            raise ConfigError(f"weights = {self.weights!r}: must name keys, such as {{'gold': 3}}")
        self.definitions()

    def definitions(self) -> list[Limit]:
        """Return what the store has to know: the weights of keys."""
        return [share_limit(self.queue, key, weight) for key, weight in self.weights.items()]

    def gate(self, task: str, arguments: Mapping[str, Any], tags: Sequence[str]) -> Gate:
        """Return the gate of the share that a call belongs to; all without a key have one."""
        value, weight = self._key(task, arguments, tags), 1
        if callable(self.fair_key):
            value, weight = split_weight(task, value)
        key = "" if value is None else key_text(_FIELD, task, value)
        return Gate(gate_name(FAIR, self.queue, key), weight)

    def _key(self, task: str, arguments: Mapping[str, Any], tags: Sequence[str]) -> Any:
        if callable(self.fair_key):
            if not _suits(self.fair_key, arguments):
                return None
            return call_key(_FIELD, task, self.fair_key, arguments)
        value = arguments.get(self.fair_key)
        if value is not None:
            return value
        tag = f"{self.fair_key}:"
        return next(
            (each[len(tag) :] for each in tags if each.startswith(tag) and each != tag), None
        )


def share_limit(queue: str, key: object, weight: Any) -> Limit:
    """Return the limit that gives a key of a queue its weight, or raise `ConfigError`."""
    if not isinstance(key, str | int) or isinstance(key, bool) or not _is_key(str(key)):
        raise ConfigError(
            f"key = {key!r} of the queue {queue}: must be a whole number, or a text of at most "
            f"{MAX_KEY} characters that can be printed"
        )
    try:
        name = gate_name(FAIR, check_name("queue", queue), str(key))
        return Limit(name, weight=weight)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def gates_of_call(
    task: str,
    limits: TaskLimits | None,
    fair: FairQueue | None,
    queue: str,
    arguments: Mapping[str, Any],
    tags: Sequence[str],
) -> list[str]:
    """Return the gates that a call has to pass, as they stand in its lane."""
    gates = [] if limits is None else limits.gates(queue, arguments)
    # What the task says of its own jobs is said more closely.
    if fair is not None and (limits is None or limits.fair_key is None):
        gates.append(fair.gate(task, arguments, tags))
    names = [written(gate) for gate in gates]
    size = len("".join(names).encode())
    if size > MAX_GATES:
        raise InvalidJob(
            f"the keys of {task} are {size:,} bytes together, the limit is {MAX_GATES:,}",
            path="concurrency_key",
        )
    return names


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and _is_key(value)


def _is_key(text: str) -> bool:
    return len(text) <= MAX_KEY and text.isprintable()


def _suits(function: KeyFunction, arguments: Mapping[str, Any]) -> bool:
    """Tell whether a task has all the arguments that a function of keys needs."""
    return all(
        each.name in arguments
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    )
