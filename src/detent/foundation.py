"""What the parts of an app have in common: the things that `App` is made of."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from detent.client import Client
from detent.config import Config
from detent.events import Bus
from detent.jobs import Jobs
from detent.lazy import FirstUse
from detent.protection import Protection
from detent.spi.codec import Codec
from detent.spi.notifier import Notifier
from detent.spi.runtime import Runtime
from detent.spi.store import Store
from detent.tasks import Registry


class Foundation(ABC):
    """Each part of an app stands on this; `App` makes it, when it is first needed."""

    config: Config
    bus: Bus
    tasks: Registry
    _runtime: Runtime
    _codec: Codec
    _notifier: Notifier | None
    _client: Client | None
    _call: Callable[..., Any]
    """What runs a coroutine for blocking code."""

    def __init__(self) -> None:
        self._first_use = FirstUse()
        """Under its lock each lazy part is made: the first calls may come from many threads."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store."""

    @property
    @abstractmethod
    def jobs(self) -> Jobs:
        """All jobs: look, wait, cancel, pause, retry."""

    @property
    @abstractmethod
    def client(self) -> Client:
        """What enqueues."""

    @property
    @abstractmethod
    def _protection(self) -> Protection:
        """Who may do what, and what is secret."""
