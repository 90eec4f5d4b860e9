"""`[pools.<name>]`: threads or child processes that tasks choose by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal, TypedDict

from detent.config.readers import check_name, matching, optional, read_memory, whole
from detent.config.sections import Duration, DurationOrZero, Section
from detent.config.sources import POOLS, Raw, any_of, as_variable
from detent.errors import ConfigError

PROCESS: Final = "process"
THREAD: Final = "thread"
# They are there without being declared; a section of their name says how they are.
OWN: Final = (THREAD, PROCESS)

_read_kind: Final = matching(f"{PROCESS}|{THREAD}", f'must be "{PROCESS}" or "{THREAD}"')


@dataclass(frozen=True, slots=True)
class PoolConfig(Section):
    """`[pools.<name>]`: a pool that tasks choose with `executor="<name>"`."""

    section: ClassVar[str] = any_of(POOLS)

    kind: Annotated[str, _read_kind] = PROCESS
    """What its workers are: child processes, or threads."""
    size: Annotated[int | None, optional(whole(1, 10_000))] = None
    """How many jobs it runs at once, if not as many as `[node] processes` or `threads` say."""
    max_jobs: Annotated[int, whole(0, 1 << 40)] = 0
    """After how many jobs a child is replaced by a new one; 0 is never."""
    max_memory: Annotated[int | None, optional(read_memory)] = None
    """How much memory a child may use, such as `"512MB"`: above that it is killed with its job,
    or replaced when its job has just ended."""
    idle: Duration = timedelta(seconds=60)
    """After how long without work a child ends."""
    kill_grace: DurationOrZero = timedelta(seconds=0.5)
    """How long a job that was canceled has to end by itself before its child is killed."""
    load_timeout: Duration = timedelta(seconds=60)
    """How long a child may take to start, or to import the module of a task."""

    def _check(self) -> None:
        if self.kind == THREAD and (self.max_jobs or self.max_memory):
            key = "max_jobs" if self.max_jobs else "max_memory"
            raise ConfigError(
                f"[{self.section}] {key} = {getattr(self, key)!r}: is for child processes; "
                f'threads cannot be replaced (kind = "{THREAD}")'
            )


class PoolSettings(TypedDict, total=False):
    """The same settings, as a program may write them."""

    kind: Literal["process", "thread"]
    size: int | None
    max_jobs: int
    max_memory: int | str | None
    idle: timedelta | float | str
    kill_grace: timedelta | float | str
    load_timeout: timedelta | float | str


def check_pool_name(name: object) -> str:
    """Return the name of a pool, or raise `ConfigError`."""
    if name == "async":
        raise ConfigError('the pool "async": that name means the event loop itself')
    return check_name("the pool", name)


def make_pool(name: str, values: Mapping[str, Any], base: "PoolConfig | None" = None) -> PoolConfig:
    """Return a pool with these settings; what is missing comes from `base`, or is usual."""
    for key in values:
        if key not in PoolConfig.names():
            keys = ", ".join(PoolConfig.names())
            raise ConfigError(f"[{POOLS}.{name}] {key}: unknown key; the keys are {keys}")
    fallback = base or PoolConfig(kind=name if name in OWN else PROCESS)
    settings = {key: getattr(fallback, key) for key in PoolConfig.names()} | dict(values)
    if name in OWN and settings["kind"] != name:
        raise ConfigError(f"[{POOLS}.{name}] kind = {settings['kind']!r}: can only be {name!r}")
    try:
        return PoolConfig(**settings)
    except ConfigError as error:
        raise ConfigError(str(error).replace(PoolConfig.section, f"{POOLS}.{name}")) from error


def read_pools(found: Iterable[Raw]) -> dict[str, PoolConfig]:
    """Make the pools of a file and of variables; what comes later in the list counts more.

    A variable cannot say `-`, `.` or upper case: it means the pool whose name reads the same.
    """
    values: dict[str, dict[str, Any]] = {}
    for raw in found:
        name = raw.section.removeprefix(f"{POOLS}.")
        name = next((known for known in values if as_variable(known) == name), name)
        settings = values.setdefault(check_pool_name(name), {})
        if raw.key:
            section = f"{POOLS}.{name}"
            settings[raw.key] = PoolConfig.read(raw.key, raw.value, raw.source, section)
    return {name: make_pool(name, settings) for name, settings in values.items()}


def check_pools(pools: object) -> None:
    """Refuse what a program passed as pools and is something else."""
    if not isinstance(pools, Mapping):
        raise ConfigError(f"pools = {pools!r}: must name each pool and its PoolConfig")
    for name, pool in pools.items():
        check_pool_name(name)
        if not isinstance(pool, PoolConfig):
            raise ConfigError(f"pools[{name!r}] = {pool!r}: must be a PoolConfig")
