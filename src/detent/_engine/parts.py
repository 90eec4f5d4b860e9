"""What a node is made from: all that the app hands to the engine."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from detent._engine.seal import Seal
from detent.config import Config
from detent.daemons import Daemon
from detent.events import Bus
from detent.lifetimes import Lifetime
from detent.listeners import Audience
from detent.model.breaker import Breaker
from detent.model.failure import Clean, Sanitizer
from detent.model.limits import Limit
from detent.model.schedule import Schedule
from detent.spi.codec import Codec
from detent.spi.executor import Executor
from detent.spi.guard import Guard
from detent.spi.leadership import TermFence
from detent.spi.middleware import Middleware
from detent.spi.nodes import NodeIdentity, NodeInfo
from detent.spi.notifier import Notifier
from detent.spi.resilience import Resilience
from detent.spi.runtime import Runtime
from detent.spi.sealing import Sealing
from detent.spi.store import Store
from detent.tasks import Registry

Hook = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What a node is made from."""

    runtime: Runtime
    bus: Bus
    store: Store
    notifier: Notifier | None
    registry: Registry
    config: Config
    identity: NodeIdentity
    codecs: Mapping[str, Codec]
    executors: Mapping[str, Executor]
    middleware: Sequence[Middleware] = ()
    lifetime: Lifetime | None = None
    """Where the node keeps what its tasks depend on."""
    hooks: Mapping[str, Sequence[Hook]] = field(default_factory=dict)
    stack: Callable[[], str] | None = None
    """The stack of the thread that runs the node; called on another one. None where a blocked
    loop would block that other thread too.
    """
    load: Callable[[], Mapping[str, float]] = dict
    """What the process says of itself with each heartbeat; called on the heartbeat's thread."""
    is_gone: Callable[[NodeInfo], bool] = lambda _node: False
    """Whether another node is known to have ended: its process was on this machine."""
    daemons: Iterable[Daemon] = ()
    schedules: Sequence[Schedule] = ()
    """What code declares."""
    sealing: Sealing | None = None
    """What opens and seals, where there are keys."""
    clean: Clean | None = None
    sanitizer: Sanitizer | None = None
    """What is done to errors before they are stored or told."""
    seal: Seal | None = None
    """What seals schedules and the jobs that they fire."""
    guards: Sequence[Guard] = ()
    """What stands around every attempt; those of one node only."""
    resilience: Resilience | None = None
    """What stands around every call instead of the circuit breakers."""
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    """The circuit breakers that tasks may name; none at all cost nothing."""
    limits: Sequence[Limit] = ()
    """What code says about limits: the store must know before a job behind one is claimed."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """The tasks that the node will not run, and what it lacks for each."""
    fence: TermFence | None = None
    """What fences the transactions of daemons, if not the store alone."""
    on_gone: Hook = lambda: None
    """Called when the node has left, however it came to that."""
    audience: Audience | None = None
    """Who wants to know what the node has done."""
