"""A store in plain dictionaries: the executable specification that every database must match."""

from detent.stores.memory.notifier import MemoryNotifier
from detent.stores.memory.store import MemoryStore
from detent.stores.memory.transaction import MemoryConnection

__all__ = ["MemoryConnection", "MemoryNotifier", "MemoryStore"]
