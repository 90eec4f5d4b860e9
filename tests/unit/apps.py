"""Apps that need nothing around them, for tests that have to run in real time."""

from typing import Any

from detent import App
from detent.config import Config, NodeConfig
from detent.stores.memory import MemoryNotifier, MemoryStore


def app_in_memory(**node: Any) -> App:
    """Return an app on a store of its own, whose nodes are configured so."""
    config = Config(node=NodeConfig(**node))
    return App(config=config, store=MemoryStore(), notifier=MemoryNotifier())
