"""What people do with limits: look at them, change them while jobs run, take changes back."""

from collections.abc import Callable, Sequence
from typing import Final

from detent.errors import ConfigError
from detent.model.gates import KINDS, RESOURCE
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.spi.limits import LimitInfo, LimitStore
from detent.spi.notifier import EVERYONE, Notifier, SignalHint

_EXAMPLES: Final = "'smtp' (a resource), 'task:<name>', 'task:<name>#' (for each key), 'queue:mail'"


class Limits:
    """All limits of a store."""

    def __init__(self, store: LimitStore, notifier: Notifier | None = None) -> None:
        self._store = store
        self._notifier = notifier

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
        """Let a limit hold from the next claim on, whatever code says; what runs goes on."""
        await self._store.set_limit(make_limit(name, concurrency, rate))
        self._tell()

    async def reset(self, name: str) -> Limit | None:
        """Let code's word hold again, and return it; a limit that is in no code goes."""
        code = await self._store.reset_limit(full_name(name))
        self._tell()
        return code

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
    return name if name.partition(":")[0] in KINDS and ":" in name else f"{RESOURCE}:{name}"


def make_limit(name: str, concurrency: int | None, rate: Rate | None) -> Limit:
    """Return a limit, or raise `ConfigError` with what is wrong about it."""
    try:
        return Limit(full_name(name), concurrency, rate)
    except ValueError as error:
        raise ConfigError(str(error)) from None
