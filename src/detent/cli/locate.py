"""Finds the app that a command is to work with: `module:attribute`."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from detent.app import App
from detent.cli.command import NotUnderstood
from detent.config import StoreConfig
from detent.tasks import Task


def find_app(place: str) -> App:
    """Import `module` with the current directory on the path, and return its app.

    What the module itself raises is the user's to see, with its traceback.
    """
    module_name, _, attribute = place.partition(":")
    if not module_name or "/" in module_name or module_name.endswith(".py"):
        words = [word for word in module_name.removesuffix(".py").split("/") if word.isidentifier()]
        meant = f"{'.'.join(words) or 'shop.jobs'}:{attribute or 'app'}"
        raise _wrong(place, f"write it as module:attribute, such as {meant}")
    module = _import(place, module_name)
    if not attribute:
        raise _wrong(place, f"the attribute is missing; {_apps_in(module)}")
    found: Any = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise _wrong(place, f"there is no {name!r}; {_apps_in(module)}") from error
    if not isinstance(found, App):
        kind = "task" if isinstance(found, Task) else type(found).__name__
        raise _wrong(place, f"that is a {kind}, not an App; {_apps_in(module)}")
    return found


def aim(app: App, url: str | None, schema: str | None) -> None:
    """Let an app that was found work on the store that the options name."""
    changes: dict[str, Any] = {}
    if url is not None:
        changes["url"] = StoreConfig.read("url", url, "--url")
    if schema is not None:
        changes["schema"] = StoreConfig.read("schema", schema, "--schema")
    app.config = replace(app.config, store=replace(app.config.store, **changes))


def _import(place: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only when it is this module that is missing, and not one that it imports.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        problem = f"there is no module {error.name!r} here or installed"
        if outer := sys.modules.get(error.name.rpartition(".")[0]):
            problem += f"; {_apps_in(outer)}"
        raise _wrong(place, problem) from error


def _apps_in(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    if not names:
        return f"the module {module.__name__} has no App"
    return f"found: {', '.join(f'{module.__name__}:{name}' for name in names)}"


def _wrong(place: str, problem: str) -> NotUnderstood:
    return NotUnderstood(f"APP {place!r}: {problem}")
