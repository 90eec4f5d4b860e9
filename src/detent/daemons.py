"""Functions of which one instance runs in the cluster: their declaration and their context."""

import asyncio
import difflib
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar, overload
from uuid import UUID

from detent.config import check_name, parse_duration
from detent.config.readers import ROLES, check_label
from detent.depends import Dependency
from detent.errors import ConfigError, WrongThread
from detent.lines import Lines
from detent.model.retry import Retry
from detent.spi.daemons import DaemonInfo, DaemonPort, DaemonStore
from detent.tasks import as_names

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_DELAY: Final = timedelta(hours=24)
WAITING: Final = "waiting"
DEFAULT_RESTART: Final = Retry(delay=timedelta(seconds=1), max_delay=timedelta(minutes=1))


class StopSignal:
    """Given once, and heard on the event loop as well as on threads."""

    def __init__(self) -> None:
        self._for_threads = threading.Event()
        self._for_tasks = asyncio.Event()

    def set(self) -> None:
        """Give it; on the loop's thread."""
        self._for_threads.set()
        self._for_tasks.set()

    def is_set(self) -> bool:
        """Whether it was given; on any thread."""
        return self._for_threads.is_set()

    async def wait(self) -> None:
        """Wait for it on the loop."""
        await self._for_tasks.wait()

    def wait_blocking(self, seconds: float) -> None:
        """Wait for it on a thread, for so long at most."""
        self._for_threads.wait(seconds)


class DaemonLog(Lines):
    """Lines for the log of the node, with the daemon's name; it takes what any logger takes."""

    __slots__ = ()


class DaemonContext:
    """The run of a daemon, as its function sees it.

    A daemon runs under a *term*: a number that grows by one each time that another node (or the
    same one again) takes the daemon over. Told to stop, a daemon has until its grace is over; one
    that has lost its term is stopped at once, since its successor may be running already. What it
    writes to the store's database should be `fenced`, so that nothing of it counts by then.
    """

    __slots__ = ("_port",)

    def __init__(self, port: DaemonPort) -> None:
        self._port = port

    @property
    def name(self) -> str:
        """The name of the daemon."""
        return self._port.name

    @property
    def node_id(self) -> UUID:
        """The incarnation of the node that it runs on."""
        return self._port.node_id

    @property
    def node_name(self) -> str:
        """The name of that node."""
        return self._port.node_name

    @property
    def term(self) -> int:
        """A number that grows with every take-over: pass it on to fence writes elsewhere."""
        return self._port.term

    @property
    def log(self) -> DaemonLog:
        """Where to write lines."""
        return DaemonLog(self._port)

    @property
    def should_stop(self) -> bool:
        """Whether to come to an end: the node drains, or the term is lost or in doubt."""
        return self._port.should_stop()

    async def stopping(self) -> None:
        """Wait until told to stop."""
        await self._port.stopping()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait on a thread until told to stop, or for so long; return whether to stop.

        For daemons declared with `def`: a sleep that ends when it should.
        """
        if _on_a_loop():
            raise WrongThread("ctx.wait() would block the event loop; use: await ctx.stopping()")
        return self._port.wait(seconds)

    async def fenced(self, connection: Any) -> None:
        """Let the transaction on `connection` commit only under this term.

        To be called inside a transaction of your own on the store's database, with any connection
        that `within=` takes. Raises `TermLost` when another leads by now; from then on until the
        end of the transaction nobody else can.
        """
        await self._port.fence(connection)

    def fenced_sync(self, connection: Any) -> None:
        """Do the same with a connection of a blocking driver, on this thread."""
        self._port.fence_sync(connection)


@dataclass(frozen=True, slots=True)
class Daemon:
    """A declared daemon."""

    function: Callable[..., Any]
    name: str
    role: str = "scheduler"
    """Which nodes run it: those with this role,"""
    needs: tuple[str, ...] = ()
    """and these capabilities."""
    restart: Retry = DEFAULT_RESTART
    """Of this only the delays count: a daemon is always started again."""
    grace: timedelta = timedelta(seconds=10)
    """How long it may go on after it was told to stop."""

    def __post_init__(self) -> None:
        check_label("daemon", self.name)
        _check_function(self.function, self.name)
        for capability in self.needs:
            check_name("needs", capability)
        if self.role not in ROLES:
            near = difflib.get_close_matches(str(self.role), ROLES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(
                f"daemon {self.name}: role = {self.role!r}: must be one of {', '.join(ROLES)}{hint}"
            )

    @property
    def leader_role(self) -> str:
        """The role under which one node at a time runs it."""
        return f"daemon:{self.name}"

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop, or on a thread of its own."""
        called = getattr(self.function, "__call__", None)  # noqa: B004  an object with one
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)

    def call(self, context: DaemonContext) -> Any:
        """Call the function, with a context if it takes one."""
        return self.function(context) if _takes_context(self.function) else self.function()


class Registry:
    """The daemons that an app knows."""

    def __init__(self) -> None:
        self._daemons: dict[str, Daemon] = {}

    def add(self, daemon: Daemon) -> None:
        """Register a daemon under its name, which must be free."""
        known = self._daemons.get(daemon.name)
        if known is not None and known.function is not daemon.function:
            raise ConfigError(
                f"two daemons are named {daemon.name!r}; give one of them another name="
            )
        self._daemons[daemon.name] = daemon

    def __iter__(self) -> Iterator[Daemon]:
        return iter(self._daemons.values())


class Daemons:
    """All daemons: those of this app, and those that any node has reported."""

    def __init__(self, store: DaemonStore, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def list(self) -> list[DaemonInfo]:
        """Return all daemons by name: where each runs, and how it is doing.

        One that no node has run yet is `waiting`.
        """
        found = {daemon.name: daemon for daemon in await self._store.daemons()}
        for daemon in self._registry:
            found.setdefault(daemon.name, _never_run(daemon.name))
        return [found[name] for name in sorted(found)]


def _never_run(name: str) -> DaemonInfo:
    return DaemonInfo(name, WAITING, None, None, None, None, 0, None, None)


class DeclareDaemon(Protocol):
    """The type of `@app.daemon`: with options and without."""

    @overload
    def __call__(self, function: Function, /) -> Function: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = ...,
        role: str = ...,
        needs: str | Sequence[str] = ...,
        restart_delay: timedelta | float | str = ...,
        max_restart_delay: timedelta | float | str = ...,
        grace: timedelta | float | str = ...,
    ) -> Callable[[Function], Function]: ...


def declare_with(add: Callable[[Daemon], None]) -> DeclareDaemon:
    """Return what declares daemons, with options and without."""

    def declare(function: Callable[..., Any] | None = None, **options: Any) -> Any:
        if function is not None and not options:
            add(_daemon_of(function))
            return function

        def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
            add(_daemon_of(function, **options))
            return function

        return with_options

    return declare


def _daemon_of(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    role: str = "scheduler",
    needs: str | Sequence[str] = (),
    restart_delay: timedelta | float | str = DEFAULT_RESTART.delay,
    max_restart_delay: timedelta | float | str = DEFAULT_RESTART.max_delay,
    grace: timedelta | float | str = timedelta(seconds=10),
) -> Daemon:
    label = name or _name_of(function)
    return Daemon(
        function,
        label,
        role=role,
        needs=as_names("needs", needs),
        restart=as_restart(label, restart_delay, max_restart_delay),
        grace=as_length(label, "grace", grace),
    )


def _name_of(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or "?"
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def as_restart(
    name: str, delay: timedelta | float | str, max_delay: timedelta | float | str
) -> Retry:
    """Return how long a daemon waits before it is started again."""
    least = as_length(name, "restart_delay", delay)
    most = as_length(name, "max_restart_delay", max_delay)
    if most < least:
        raise ConfigError(
            f"daemon {name}: max_restart_delay = {max_delay!r}: must not be shorter than "
            f"restart_delay ({delay!r})"
        )
    return Retry(delay=least, max_delay=most)


def as_length(name: str, option: str, value: timedelta | float | str) -> timedelta:
    """Return a duration given as a timedelta, in seconds or as a text such as "5s"."""
    try:
        length = parse_duration(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"daemon {name}: {option} = {value!r}: {error}") from error
    if not timedelta(0) <= length <= MAX_DELAY:
        raise ConfigError(f"daemon {name}: {option} = {value!r}: must be 0 to 24 hours")
    return length


def _check_function(function: Any, name: str) -> None:
    if not callable(function):
        raise ConfigError(f"daemon {name}: {function!r} is no function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"daemon {name}: must not have yield in it")
    if any(isinstance(each.default, Dependency) for each in _parameters(function)):
        raise ConfigError(f"daemon {name}: Depends(...) is for tasks; make what it needs in it")
    required = [
        each for each in _parameters(function) if each.default is each.empty and not _is_open(each)
    ]
    if len(required) > 1 or any(each.kind is each.KEYWORD_ONLY for each in required):
        raise ConfigError(f"daemon {name}: must take one argument, the context, or none")


def _takes_context(function: Callable[..., Any]) -> bool:
    return any(
        each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
        for each in _parameters(function)
    )


def _parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _is_open(parameter: inspect.Parameter) -> bool:
    """Whether it takes any number of arguments, also none."""
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
