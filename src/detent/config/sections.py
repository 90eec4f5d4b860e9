"""The sections of the configuration: one that exists is one that is right."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Self, get_origin, get_type_hints

from detent.config.readers import (
    MAX_SLOTS,
    ROLES,
    Reader,
    matching,
    one_of,
    optional,
    read_bool,
    read_capabilities,
    read_carrier,
    read_duration,
    read_duration_or_zero,
    read_memory,
    read_node_name,
    read_pooler,
    read_queues,
    read_roles,
    read_url,
    whole,
)
from detent.config.rules import read_action, read_keep, read_queue_rules, read_rule
from detent.errors import ConfigError
from detent.model.announce import TRIGGERS
from detent.model.durations import format_duration
from detent.model.retention import Action, Rule, StateRules
from detent.model.state import TERMINAL, State

_PASSWORD: Final = re.compile(r"(?<=://)([^:@/?\s]*):.*@|(?<=[?&]password=)[^&]*")


def redact(url: str) -> str:
    """Return a URL without its password, for messages."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] is not None else "***", url)


Duration = Annotated[timedelta, read_duration]
LEASE: Final = timedelta(seconds=15)
DurationOrZero = Annotated[timedelta, read_duration_or_zero]

_read_schema: Final = matching(
    r"[a-z_][a-z0-9_]{0,47}", "must be 1 to 48 of a-z, 0-9 and _, not beginning with a digit"
)
_read_channel: Final = matching(
    r"[A-Za-z0-9_-]{1,100}", "must be 1 to 100 of A-Z, a-z, 0-9, '_' and '-'"
)
# Enough to answer what happened last weekend.
_WEEK: Final = Rule(timedelta(days=7))
# What failed is work that was not done: somebody has to look at it, and may be away for long.
_QUARTER: Final = Rule(timedelta(days=90))


class Section:
    """Reads each of its fields when it is made, and refuses to be made wrong."""

    __slots__ = ()
    section: ClassVar[str]
    secret: ClassVar[frozenset[str]] = frozenset()
    """The settings whose values no message may show."""
    _readers: ClassVar[dict[str, Reader]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        settings = {key: hint for key, hint in hints.items() if get_origin(hint) is Annotated}
        cls._readers = {key: hint.__metadata__[0] for key, hint in settings.items()}

    def __post_init__(self) -> None:
        for key in self.names():
            object.__setattr__(self, key, self.read(key, getattr(self, key)))
        self._check()

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the settings."""
        return list(cls._readers)

    @classmethod
    def read(
        cls, key: str, value: object, source: str | None = None, section: str | None = None
    ) -> Any:
        """Return a setting read from a value or a text, or raise `ConfigError`."""
        try:
            return cls._readers[key](value)
        except (TypeError, ValueError) as error:
            shown = redact(value) if isinstance(value, str) else value
            shown = "***" if key in cls.secret else shown
            place = f" (from {source})" if source else ""
            name = section or cls.section
            raise ConfigError(f"[{name}] {key} = {shown!r}: {error}{place}") from error

    def _check(self) -> None:
        """Refuse values that are right alone and wrong together."""

    def _at_least(self, key: str, least: timedelta, what: str) -> None:
        value: timedelta = getattr(self, key)
        if value < least:
            raise ConfigError(
                f"[{self.section}] {key} = {format_duration(value)}: "
                f"must be {what} ({format_duration(least)}) or longer"
            )


@dataclass(frozen=True, slots=True)
class StoreConfig(Section):
    """`[store]`: where jobs are kept."""

    section: ClassVar[str] = "store"

    # Not in repr(), since it may hold a password.
    url: Annotated[str, read_url] = field(default="sqlite:///detent.db", repr=False)
    """Where the jobs live: `sqlite:///file`, `postgresql://user@host/database` or `memory://`."""
    schema: Annotated[str, _read_schema] = "detent"
    """The database schema that holds the tables."""
    pool_size: Annotated[int, whole(1, 1000)] = 10
    """The most connections for statements, of one process and event loop; a node has three more."""
    pooler: Annotated[bool | None, read_pooler] = None
    """Whether a transaction pooler stands in between; "auto" finds out."""
    priority_boost_interval: DurationOrZero = timedelta(minutes=15)
    """After how long a waiting job rises by one priority; 0 is never."""
    timeout: Duration = timedelta(seconds=30)
    """How long one statement, or one attempt to connect, may take."""
    auto_migrate: Annotated[bool, read_bool] = False
    """Whether opening the store runs the pending migrations."""


@dataclass(frozen=True, slots=True)
class NodeConfig(Section):
    """`[node]`: what one process runs."""

    section: ClassVar[str] = "node"

    name: Annotated[str | None, read_node_name] = None
    """What people call the node, if not by the name of the host."""
    roles: Annotated[tuple[str, ...], read_roles] = ROLES
    """What the node does: a `worker` claims jobs, a `scheduler` fires schedules and runs daemons.
    The others are for what is still to come."""
    capabilities: Annotated[tuple[str, ...], read_capabilities] = ()
    """What the node offers to tasks that were declared with `needs=`."""
    queues: Annotated[Mapping[str, int], read_queues] = field(default_factory=dict, hash=False)
    """Queues and their slots; without any, `default` gets `concurrency` slots."""
    concurrency: Annotated[int, whole(1, MAX_SLOTS)] = 100
    """How many jobs of each queue run at once, when `queues` names none."""
    threads: Annotated[int, whole(1, 10_000)] = 32
    """How many blocking tasks run at once."""
    processes: Annotated[int | None, optional(whole(1, 10_000))] = None
    """How many tasks run at once in child processes, if not one for each core."""
    claim_batch: Annotated[int, whole(1, 5000)] = 1000
    """The most jobs that one claim takes."""
    inline_args: Annotated[int, whole(0, 1 << 30)] = 8192
    """Payloads above this many bytes are loaded when their job starts."""
    drain_timeout: DurationOrZero = timedelta(seconds=30)
    """How long running jobs may go on when the node stops; then they are given back."""
    cancel_grace: DurationOrZero = timedelta(seconds=5)
    """How long a coroutine may clean up after its timeout or a cancel; then its job ends without
    it."""
    signal_interval: Duration = timedelta(seconds=1)
    """How often a node looks for cancel requests while jobs run, besides being told."""
    reconcile_interval: Duration = timedelta(seconds=60)
    """How often a node compares the claims in its name with what it holds."""

    loop_warning: Duration = timedelta(seconds=1)
    """For how long a job may block the event loop before the node says so."""
    max_jobs: Annotated[int | None, optional(whole(1, 1 << 40))] = None
    """After how many jobs the node drains and ends, for a supervisor to start a fresh one."""
    max_rss: Annotated[int | None, optional(read_memory)] = None
    """With how much memory it does the same, such as `"1GB"`."""

    def slots(self) -> dict[str, int]:
        """Return the queues of this node and how many jobs of each it runs at once."""
        return dict(self.queues) or {"default": self.concurrency}


@dataclass(frozen=True, slots=True)
class PollingConfig(Section):
    """`[polling]`: how often a node asks for work that no wake-up told it of."""

    section: ClassVar[str] = "polling"

    burst: Duration = timedelta(seconds=0.5)
    """The pause between polls after a wake-up or a job."""
    burst_polls: Annotated[int, whole(0, 1000)] = 3
    """How many empty polls end the burst."""
    minimum: Duration = timedelta(seconds=2)
    """The shortest pause after the burst; it doubles while polls find little."""
    maximum: Duration = timedelta(seconds=10)
    """The longest such pause; at least `minimum`."""
    deep_idle: Duration = timedelta(seconds=30)
    """The pause when there has been no work for long; at least `maximum`."""
    deep_idle_after: Duration = timedelta(seconds=60)
    """How long that is."""
    window: Annotated[int, whole(1, 1000)] = 10
    """Over how many polls the work found is averaged."""

    @classmethod
    def classic(cls) -> Self:
        """Return the slower rhythm that Ratchet's documentation gives."""
        return cls(
            burst_polls=5,
            minimum=timedelta(seconds=2),
            maximum=timedelta(seconds=30),
            deep_idle=timedelta(seconds=60),
            deep_idle_after=timedelta(minutes=5),
        )

    def _check(self) -> None:
        self._at_least("maximum", self.minimum, "minimum")
        self._at_least("deep_idle", self.maximum, "maximum")


@dataclass(frozen=True, slots=True)
class WakeupConfig(Section):
    """`[wakeup]`: whether nodes are told of new jobs, or only poll."""

    section: ClassVar[str] = "wakeup"

    enabled: Annotated[bool, read_bool] = True
    """Whether the node listens; without it, jobs wait for the next poll."""
    # Not in repr(), since it may hold a password.
    url: Annotated[str | None, optional(read_carrier)] = field(default=None, repr=False)
    """What carries wake-ups, if not the store itself: `redis://host`, `nats://host`, `"none"`, or
    the way round a pooler to the same database: `postgresql://host/database`."""
    channel: Annotated[str | None, optional(_read_channel)] = None
    """The name under which nodes talk on a Redis or NATS server, if not that of the schema."""
    triggers: Annotated[str, one_of(*TRIGGERS)] = "due"
    """Which new jobs wake the nodes: `"due"` is all of them, `"classic"` only critical ones and
    those without a delay."""


@dataclass(frozen=True, slots=True)
class ClusterConfig(Section):
    """`[cluster]`: how nodes know that others are alive."""

    section: ClassVar[str] = "cluster"

    heartbeat_interval: Duration = timedelta(seconds=5)
    """How often a node renews its lease."""
    lease: Duration = LEASE
    """How long a node counts as alive after a heartbeat; at least 3 intervals. Left alone, it
    grows with a longer interval.
    """
    skew_warning: Duration = timedelta(seconds=1)
    """From which difference between the clocks of node and database a node warns."""
    max_crashes: Annotated[int, whole(2, 100)] = 3
    """How often a job alone may have killed its node before it fails."""
    sweep_interval: Duration = timedelta(seconds=30)
    """How often a node looks for claims of dead nodes that nobody ended."""
    forget_after: Duration = timedelta(days=1)
    """How long a dead node stays on the list."""
    leader_check: Duration = timedelta(seconds=5)
    """How often leaders are confirmed and other nodes look for roles without one; a leader that
    was not confirmed for 3 of these is followed by another."""

    @property
    def leader_lease(self) -> timedelta:
        """How long a leader counts as one after it was confirmed."""
        return 3 * self.leader_check

    def _check(self) -> None:
        # Two lost heartbeats must not cost a healthy node its work.
        if self.lease == LEASE:
            object.__setattr__(self, "lease", max(LEASE, 3 * self.heartbeat_interval))
        self._at_least("lease", 3 * self.heartbeat_interval, "3 heartbeat intervals")


@dataclass(frozen=True, slots=True)
class RetentionConfig(Section):
    """`[retention]`: how long ended jobs stay, and what becomes of them then."""

    section: ClassVar[str] = "retention"

    succeeded: Annotated[Rule, read_rule] = _WEEK
    """How long jobs stay that succeeded: `"7d"`, `"forever"`, `"7d archive"`, or a table with
    `keep` and `action`. At least that long; they go with the next sweep."""
    failed: Annotated[Rule, read_rule] = _QUARTER
    """How long the failed ones stay: the dead-letter set."""
    canceled: Annotated[Rule, read_rule] = _WEEK
    """How long the canceled ones stay."""
    action: Annotated[Action, read_action] = Action.DELETE
    """What becomes of those whose rule does not say it."""
    queues: Annotated[Mapping[str, Mapping[State, Rule]], read_queue_rules] = field(
        default_factory=dict, hash=False
    )
    """What is different in some queues: `[retention.queues.mail]` with the same three keys."""
    # A year: whoever archives wants to be asked about it later, but not for ever.
    archive_keep: Annotated[timedelta | None, read_keep] = timedelta(days=365)
    """How long archived jobs stay in the archive."""
    interval: Duration = timedelta(minutes=5)
    """How often a node looks for jobs whose time is over."""
    page: Annotated[int, whole(1, 10_000)] = 1000
    """The most jobs that one transaction removes; fewer when that takes longer than 25 ms."""

    def rules(self) -> dict[State, StateRules]:
        """Return what holds for each terminal state."""
        return {
            state: StateRules.compose(
                getattr(self, state),
                {queue: rules[state] for queue, rules in self.queues.items() if state in rules},
                self.action,
            )
            for state in TERMINAL
        }


@dataclass(frozen=True, slots=True)
class LimitsConfig(Section):
    """`[limits]`: how big things may be; sizes are bytes."""

    section: ClassVar[str] = "limits"

    max_payload: Annotated[int, whole(1, 1 << 30)] = 1 << 20
    """The arguments of a job, and its `params`, each."""
    max_result: Annotated[int, whole(0, 1 << 30)] = 1 << 20
    """The result of a job; a bigger one is replaced by a marker."""
    max_key: Annotated[int, whole(1, 1000)] = 255
    """Characters of a key or a tag."""
    max_depth: Annotated[int, whole(1, 1000)] = 100
    """How deep lists and objects may be nested."""
    max_tags: Annotated[int, whole(0, 1000)] = 50
    """Tags of one job."""
    max_log_line: Annotated[int, whole(1, 1 << 20)] = 8192
    """Characters of a log line or a progress message; the rest is cut off."""
    max_log_lines: Annotated[int, whole(1, 1_000_000)] = 10_000
    """Log lines that are kept of one attempt; one more says that there were others."""
