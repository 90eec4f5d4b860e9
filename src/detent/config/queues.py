"""`[queues.<name>]`: what is said of one queue, whatever tasks its jobs are of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

from detent.config.readers import check_name, optional, read_weights
from detent.config.sections import Section
from detent.config.sources import QUEUES, Raw, any_of, as_variable
from detent.errors import ConfigError

MAX_NAME: Final = 255


def _read_key(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
        raise ValueError("must be the name of an argument, or of a tag as in tenant:acme")
    return value


@dataclass(frozen=True, slots=True)
class QueueConfig(Section):
    """`[queues.<name>]`: how the jobs of a queue have their turns."""

    section: ClassVar[str] = any_of(QUEUES)

    fair_key: Annotated[str | None, optional(_read_key)] = None
    """By which argument of a job, or else tag such as `tenant:acme`, the queue shares fairly."""
    weights: Annotated[Mapping[str, int], read_weights] = field(default_factory=dict, hash=False)
    """How many turns some keys have for each of another: `{ gold = 3 }`, or `gold=3,silver=2`."""

    def _check(self) -> None:
        if self.weights and self.fair_key is None:
            raise ConfigError(f"[{self.section}] weights: weigh nothing without fair_key")


def read_queue_sections(found: Iterable[Raw]) -> dict[str, QueueConfig]:
    """Make the queues of a file and of variables; what comes later in the list counts more."""
    values: dict[str, dict[str, Any]] = {}
    for raw in found:
        name = raw.section.removeprefix(f"{QUEUES}.")
        name = next((known for known in values if as_variable(known) == name), name)
        settings = values.setdefault(check_name("the queue", name), {})
        if raw.key:
            section = f"{QUEUES}.{name}"
            settings[raw.key] = QueueConfig.read(raw.key, raw.value, raw.source, section)
    return {name: _make(name, settings) for name, settings in values.items()}


def _make(name: str, settings: Mapping[str, Any]) -> QueueConfig:
    try:
        return QueueConfig(**settings)
    except ConfigError as error:
        raise ConfigError(str(error).replace(QueueConfig.section, f"{QUEUES}.{name}")) from error


def check_queues(queues: object) -> None:
    """Refuse what a program passed as queues and is something else."""
    if not isinstance(queues, Mapping):
        raise ConfigError(f"queues = {queues!r}: must name each queue and its QueueConfig")
    for name, queue in queues.items():
        check_name("the queue", name)
        if not isinstance(queue, QueueConfig):
            raise ConfigError(f"queues[{name!r}] = {queue!r}: must be a QueueConfig")
