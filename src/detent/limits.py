"""What people do with limits: look at them, change them while jobs run, take changes back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from detent.config import check_name
from detent.errors import ConfigError
from detent.fair_queues import share_limit
from detent.jobs import check_wanted
from detent.model.access import Action, Target
from detent.model.gates import FAIR, KEY, KINDS, QUEUE, RESOURCE
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.protection import Protection
from detent.spi.limits import LimitInfo, LimitStore
from detent.spi.notifier import EVERYONE, Notifier, SignalHint

_EXAMPLES: Final = "'smtp' (a resource), 'task:<name>', 'task:<name>#' (for each key), 'queue:mail'"


MAX_NAME: Final = 300


class Limits:
    """All limits of a store."""

    def __init__(
        self,
        store: LimitStore,
        notifier: Notifier | None = None,
        protection: Protection | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._protection = protection or Protection()

    async def list(self) -> list[LimitInfo]:
        """Return all limits, by name, with how much of each is taken."""
        return await self._store.limits()

    async def get(self, name: str) -> LimitInfo | None:
        """Return one limit, or None."""
        wanted = full_name(name)
        return next((each for each in await self.list() if each.limit.name == wanted), None)

    async def set(
        self, name: str, *, concurrency: int | None = None, rate: Rate | None = None
    ) -> None:
        """Let a limit hold from the next claim on, whatever code says; what runs goes on.

        A limit of 1 that keeps its order goes on to do so.
        """
        limit = make_limit(name, concurrency, rate)
        known = await self.get(limit.name) if concurrency == 1 else None
        if known is not None and (known.declared or known.limit).ordered:
            limit = replace(limit, ordered=True)
        await self._put(limit)

    async def share(self, queue: str, key: str | int, weight: int | None) -> None:
        """Give a key of a queue that shares fairly so many turns for each of another.

        It holds from the next turn on, whatever code says; None lets code's word hold again.
        """
        limit = share_limit(queue, key, 1 if weight is None else weight)
        if weight is None:
            await self.reset(limit.name)
        else:
            await self._put(limit)

    async def _put(self, limit: Limit) -> None:
        await self._permit(limit.name)
        await self._store.set_limit(limit)
        self._tell()

    async def reset(self, name: str) -> Limit | None:
        """Let code's word hold again, and return it; a limit that is in no code goes."""
        wanted = full_name(name)
        check_wanted("limit name", name)
        await self._permit(wanted)
        code = await self._store.reset_limit(wanted)
        self._tell()
        return code

    async def _permit(self, name: str) -> None:
        queue = name.partition(":")[2].partition(KEY)[0] if is_of_queue(name) else None
        target = Target(queue=queue, kind="limit", name=name)
        await self._protection.permit(Action.CONFIGURE, target)

    def _tell(self) -> None:
        """Let the nodes look again: what was blocked may be free."""
        if self._notifier is not None:
            self._notifier.publish([SignalHint(EVERYONE)])


class Declarations:
    """Makes sure that the store knows the limits that are written in code, once for each."""

    def __init__(
        self,
        store: LimitStore,
        declared: Callable[[], Sequence[Limit]],
        count: Callable[[], int],
    ) -> None:
        self._store = store
        self._declared = declared
        self._count = count
        self._told = -1

    @property
    def needed(self) -> bool:
        """Whether something was declared since the store was told."""
        return self._count() != self._told

    async def make_sure(self) -> None:
        """Tell the store, unless it was told already."""
        if self.needed:
            count = self._count()
            await self._store.declare_limits(self._declared())
            self._told = count


def full_name(name: str) -> str:
    """Return the name of a limit with its kind; a resource may be called by its name alone."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"limit name = {name!r}: must be like {_EXAMPLES}")
    known = name.partition(":")[0] in (*KINDS, FAIR) and ":" in name
    return name if known else f"{RESOURCE}:{name}"


def is_of_queue(name: str) -> bool:
    """Tell whether a limit is that of a queue, or of a share in one."""
    return name.partition(":")[0] in (QUEUE, FAIR)


def make_limit(name: str, concurrency: int | None, rate: Rate | None) -> Limit:
    """Return a limit, or raise `ConfigError` with what is wrong about it."""
    whole = full_name(name)
    kind, _, rest = whole.partition(":")
    if kind in (RESOURCE, QUEUE) and rest:
        check_name(kind, rest)
    if len(name) > MAX_NAME or not name.isprintable():
        raise ConfigError(
            f"limit name = {name[:40]!r}...: must be at most {MAX_NAME} characters "
            "that can be printed"
        )
    try:
        return Limit(whole, concurrency, rate)
    except ValueError as error:
        raise ConfigError(str(error)) from None
