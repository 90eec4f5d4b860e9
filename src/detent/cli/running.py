"""The settings that a command works with, and the event loop that it runs on."""

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from detent.cli.command import Failed
from detent.config import Config, redact
from detent.errors import StoreUnavailable

Result = TypeVar("Result")


def load_config(url: str | None, schema: str | None = None) -> Config:
    """Return the settings, with what the options say differently."""
    config = Config.load(url)
    if schema is None:
        return config
    return replace(config, store=replace(config.store, schema=schema))


def run(work: Coroutine[Any, Any, Result], config: Config, *, for_long: bool = False) -> Result:
    """Run a coroutine to its end; one that runs for long, on uvloop where it is installed."""
    try:
        with asyncio.Runner(loop_factory=_loop_factory() if for_long else None) as runner:
            return runner.run(work)
    except StoreUnavailable as error:
        # The driver's words seldom say which database it was.
        raise Failed(f"{error} ({redact(config.store.url)})") from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module(
            "uvloop"
        ).new_event_loop
    except ImportError:
        return None
    return factory
