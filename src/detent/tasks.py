"""What can run: functions declared as tasks, with their options, in a registry."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar

from detent import due
from detent.batch import ItemSignature
from detent.config import check_name
from detent.config.suggestions import unknown_option
from detent.context import JobContext
from detent.errors import ConfigError, UnknownTask
from detent.handle import Job
from detent.model.durations import Duration
from detent.model.job import Priority
from detent.model.retry import Retry
from detent.options import write_options
from detent.principal import check_principal
from detent.providing import Providers
from detent.signature import Signature, accepts
from detent.spi.codec import Codec
from detent.spi.middleware import Middleware
from detent.task_limits import TaskLimits, check_keys

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

ON_CONFLICT: Final = ("raise", "return", "replace")
ON_KEY_MISMATCH: Final = ("raise", "return")
MIN_HEARTBEAT_TIMEOUT: Final = timedelta(seconds=1)
DEFAULT_RETRY: Final = Retry()
# What ends within one transaction.
MAX_BATCH: Final = 1_000
DEFAULT_LINGER: Final = timedelta(milliseconds=50)
OPTION_TYPES: Final[dict[str, type]] = {"retry": Retry, "params": dict}


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """How the jobs of a task run unless a caller says otherwise."""

    queue: str = "default"
    priority: Priority = Priority.NORMAL
    retry: Retry = DEFAULT_RETRY
    timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    """For how long an attempt may give no sign of life: `ctx.heartbeat()`, or progress."""
    executor: str = "async"
    needs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    breaker: str | None = None
    """The circuit breaker that its calls stand under."""
    encrypted: bool | None = None
    """Whether arguments, results and errors are stored encrypted; None leaves it to the app."""
    strict_result: bool = False
    """Whether a result that cannot be stored fails the job instead of being dropped."""
    batch: int | None = None
    """How many jobs at most are given to one call; None gives each a call of its own."""
    linger: timedelta = DEFAULT_LINGER
    """How long the first job of a batch waits for others."""
    limits: TaskLimits | None = None
    """What limits its jobs; None costs nothing."""
    middleware: tuple[Middleware, ...] = ()
    """What stands around its calls, inside the middleware of the app."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        for capability in self.needs:
            check_name("needs", capability)
        if self.timeout is not None and not timedelta(0) < self.timeout <= due.MAX_TIMEOUT:
            raise ConfigError(
                f"timeout = {self.timeout}: must be above 0, at most {due.MAX_TIMEOUT.days} days"
            )
        if self.heartbeat_timeout is not None and self.heartbeat_timeout < MIN_HEARTBEAT_TIMEOUT:
            raise ConfigError(f"heartbeat_timeout = {self.heartbeat_timeout}: must be 1 s or more")
        check_retry("retry", self.retry)
        for name in ("encrypted", "strict_result"):
            value = getattr(self, name)
            if not isinstance(value, bool | None):
                # "no" would be a yes.
                raise ConfigError(f"{name} = {value!r}: must be True or False")
        if self.batch is not None:
            self._check_batch(self.batch)
        elif self.linger != DEFAULT_LINGER:
            raise ConfigError(f"linger = {self.linger}: only a batch waits for others; give batch=")
        for middleware in self.middleware:
            check_middleware("middleware", middleware)

    def _check_batch(self, batch: object) -> None:
        if type(batch) is not int or not 1 <= batch <= MAX_BATCH:
            raise ConfigError(f"batch = {batch!r}: must be from 1 to {MAX_BATCH:,}")


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What one call says differently from its task."""

    delay: timedelta | None = None
    at: datetime | None = None
    queue: str | None = None
    priority: Priority | None = None
    timeout: timedelta | None = None
    retry: Retry | None = None
    tags: tuple[str, ...] = ()
    params: dict[str, Any] | None = None
    needs: tuple[str, ...] | None = None
    key: str | None = None
    key_ttl: timedelta = timedelta(hours=24)
    on_key_mismatch: str = "raise"
    unique: str | None = None
    on_conflict: str = "raise"
    within: Any = None
    principal: str | None = None
    expires: timedelta | datetime | None = None

    def __post_init__(self) -> None:
        for name, type_ in OPTION_TYPES.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, type_):
                raise ConfigError(f"options({name}={value!r}): must be a {type_.__name__}")
        due.check_due("options", self.delay, self.at)
        due.check_length("options", "key_ttl", self.key_ttl)
        for name, allowed in (("on_conflict", ON_CONFLICT), ("on_key_mismatch", ON_KEY_MISMATCH)):
            value = getattr(self, name)
            if value not in allowed:
                raise ConfigError(f"options({name}={value!r}): must be {', '.join(allowed)}")
        if self.principal is not None:
            check_principal(self.principal)
        if self.retry is not None and (
            callable(self.retry.backoff) or self.retry.asks_about_errors
        ):
            raise ConfigError(
                "options(retry=...): a function or exception classes cannot be stored with a job; "
                "declare them with the task"
            )

    def stored(self, principal: str | None, utcnow: Callable[[], datetime]) -> bytes | None:
        """Return what is stored of them with a job."""
        expires = due.expiry(self.expires, self.delay, self.at, utcnow) if self.expires else None
        return write_options(self.timeout, self.retry, principal, expires)


class Enqueuer(Protocol):
    """Where bound calls go; the client is one."""

    @property
    def codecs(self) -> Mapping[str, Codec]:
        """How values become bytes, by the names that are stored with them."""

    async def enqueue(self, call: "BoundCall[R]") -> Job[R]:
        """Store a call as a job and return its handle."""

    def enqueue_sync(self, call: "BoundCall[R]") -> Job[R]:
        """Do the same from blocking code."""


class BoundCall(Generic[R_co]):
    """A task with arguments, ready to be enqueued; a plain class, since many are made."""

    __slots__ = ("args", "kwargs", "options", "task")

    def __init__(
        self,
        task: "Task[..., R_co]",
        args: Sequence[Any],
        kwargs: dict[str, Any],
        options: CallOptions,
    ) -> None:
        self.task = task
        self.args = args
        self.kwargs = kwargs
        self.options = options

    def with_options(self, **changes: Any) -> "BoundCall[R_co]":
        """Return the same call with other options: tags are added, params merged, others set."""
        before = self.options
        known = list(CallOptions.__dataclass_fields__)
        for option in changes.keys() - set(known):
            raise unknown_option("with_options(...)", option, known)
        if "tags" in changes:
            changes["tags"] = (*before.tags, *as_tags(changes["tags"]))
        if changes.get("params"):
            changes["params"] = {**(before.params or {}), **changes["params"]}
        try:
            return BoundCall(self.task, self.args, self.kwargs, replace(before, **changes))
        except TypeError as error:
            raise ConfigError(f"with_options(...): {error}") from error


class Task(Generic[P, R_co]):
    """A function that can be enqueued: what callers pass, and what the job returns."""

    def __init__(
        self, function: Callable[..., Any], name: str, options: TaskOptions, enqueuer: Enqueuer
    ) -> None:
        self.function = function
        self.name = name
        self.options_declared = options
        self.is_async = inspect.iscoroutinefunction(function)
        self.is_batch = options.batch is not None
        make = ItemSignature if self.is_batch else Signature
        self.signature: Signature = make(function, JobContext)
        self.owner: type | None = None
        """The class whose method it is, if it is one."""
        self.providers: Providers | None = None
        """Who makes what it depends on."""
        self.is_plain = (
            options.executor == "async"
            and not (options.middleware or self.is_batch)
            and not (self.signature.injected or self.signature.is_method)
        )
        """Whether a call of it is nothing but a call of its function."""
        self.is_keyed = options.limits is not None and options.limits.keyed
        """Whether its arguments decide behind which limits a job stands."""
        check_keys(options.limits, self.signature.names)
        self.enqueuer = enqueuer
        self.modules: tuple[str, ...] = (function.__module__,)
        """The modules that declare it when they are imported, the likeliest first."""
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__wrapped__ = function

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[R_co]:
        """Return the call as a value, for `enqueue_many`."""
        return BoundCall(self, args, kwargs, NO_OPTIONS)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store a job that makes this call; return when that is durable."""
        return await self.enqueuer.enqueue(self.bind(*args, **kwargs))

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store a job from blocking code."""
        return self.enqueuer.enqueue_sync(self.bind(*args, **kwargs))

    def options(  # noqa: PLR0913  each is one thing a caller may say
        self,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        queue: str | None = None,
        priority: Priority | int | None = None,
        timeout: Duration | None = None,
        retry: Retry | None = None,
        tags: Sequence[str] = (),
        params: dict[str, Any] | None = None,
        needs: str | Sequence[str] | None = None,
        key: str | None = None,
        key_ttl: Duration = timedelta(hours=24),
        on_key_mismatch: Literal["raise", "return"] = "raise",
        unique: str | None = None,
        on_conflict: Literal["raise", "return", "replace"] = "raise",
        within: Any = None,
        principal: str | None = None,
        expires: Duration | datetime | None = None,
    ) -> "TaskWith[P, R_co]":
        """Return this task with other options for the calls made through it.

        A job that has not begun when it `expires`, a moment or a time from now on, is canceled.
        Of the task's retry policy, `retry=` keeps what cannot be stored with a job: `never`,
        `only` and `retry_if`. All else is as it says, also where it says nothing.
        """
        return TaskWith(
            self,
            CallOptions(
                delay=None if delay is None else due.read_length("options", "delay", delay),
                at=at,
                queue=None if queue is None else check_name("queue", queue),
                priority=None if priority is None else as_priority(priority),
                timeout=due.as_timeout(timeout),
                retry=self._own_retry(retry),
                tags=as_tags(tags),
                params=params,
                needs=None if needs is None else as_names("needs", needs),
                key=key,
                key_ttl=due.read_length("options", "key_ttl", key_ttl),
                on_key_mismatch=on_key_mismatch,
                unique=unique,
                on_conflict=on_conflict,
                within=within,
                principal=principal,
                expires=due.read_expiry(expires),
            ),
        )

    def _own_retry(self, retry: Retry | None) -> Retry | None:
        """Return a policy without what the task's own says as well, and the job keeps anyway."""
        if not isinstance(retry, Retry):
            return retry
        mine = self.options_declared.retry
        same = (retry.never, retry.only, retry.retry_if) == (mine.never, mine.only, mine.retry_if)
        return retry.replace(never=(), only=(), retry_if=None) if same else retry

    def __repr__(self) -> str:
        return f"<Task {self.name}>"


class TaskWith(Generic[P, R_co]):
    """A task with options for one call."""

    def __init__(self, task: Task[P, R_co], options: CallOptions) -> None:
        self._task = task
        self._options = options

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[R_co]:
        """Return the call as a value, for `enqueue_many`."""
        return BoundCall(self._task, args, kwargs, self._options)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store a job that makes this call; return when that is durable."""
        return await self._task.enqueuer.enqueue(self.bind(*args, **kwargs))

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Store a job from blocking code."""
        return self._task.enqueuer.enqueue_sync(self.bind(*args, **kwargs))


class Registry:
    """The tasks that an app knows, by name. Nothing else is ever run."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self.batched: dict[str, Task[..., Any]] = {}
        """Those whose jobs are run many at once."""

    def add(self, task: Task[..., Any]) -> None:
        """Register a task under its name, which must be free."""
        known = self._tasks.get(task.name)
        if known is not None and known.function is not task.function:
            raise ConfigError(f"two tasks are named {task.name!r}; give one of them another name=")
        self._tasks[task.name] = task
        if task.is_batch:
            self.batched[task.name] = task

    def find(self, name: str) -> Task[..., Any] | None:
        """Return the task of that name, or None."""
        return self._tasks.get(name)

    def get(self, name: str) -> Task[..., Any]:
        """Return the task of that name, or raise `UnknownTask` with the nearest one."""
        task = self._tasks.get(name)
        if task is None:
            nearest = difflib.get_close_matches(name, self._tasks, n=1)
            raise UnknownTask(name, nearest[0] if nearest else None)
        return task

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)


def check_retry(field: str, value: object) -> Retry:
    """Return a retry policy, or refuse what is none."""
    if not isinstance(value, Retry):
        raise ConfigError(f"{field} = {value!r}: must be a Retry(...)")
    return value


def as_priority(value: Priority | int) -> Priority:
    """Return a priority, or raise `ConfigError` that lists them."""
    try:
        return Priority(value)
    except ValueError:
        known = ", ".join(f"{priority.name} {priority.value}" for priority in Priority)
        raise ConfigError(f"priority = {value!r}: must be one of {known}") from None


def check_middleware(field: str, value: object) -> None:
    """Refuse what cannot stand around a call."""
    if not accepts(value, "ctx", "proceed"):
        raise ConfigError(f"{field} = {value!r}: must be async def m(ctx, proceed)")


def as_tags(value: Sequence[str]) -> tuple[str, ...]:
    """Return tags; one text alone would be taken letter by letter."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"tags = {value!r}: must be a list of texts")
    return tuple(value)


def as_names(kind: str, value: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several as a sorted tuple of valid names."""
    if not isinstance(value, Iterable):
        raise ConfigError(f"{kind} = {value!r}: must be a name or a list of names")
    names = (value,) if isinstance(value, str) else tuple(value)
    return tuple(sorted({check_name(kind, name) for name in names}))


NO_OPTIONS: Final = CallOptions()
