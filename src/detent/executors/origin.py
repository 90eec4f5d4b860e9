"""Where a task comes from: what a child process imports to have it too.

A child never gets a function, only the name of a task and the modules that declare it. The script
that a program was started with is imported under the name that `multiprocessing` uses as well, so
that `if __name__ == "__main__"` keeps it from running as a whole.
"""

import importlib
import inspect
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from detent.errors import ConfigError, UnknownTask
from detent.tasks import Registry, Task

MAIN: Final = "__main__"
MAIN_IN_CHILD: Final = "__mp_main__"


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that a task has unless it is given one: `module.function`.

    It is the same wherever the module is imported, in a child too, and also where it is run: a
    script may enqueue jobs for nodes that import it.
    """
    own = function.__qualname__
    if own.endswith("<lambda>"):
        raise ConfigError(f"@app.task: {function!r} has no name to be known by; write name=...")
    module = function.__module__
    if module in (MAIN, MAIN_IN_CHILD):
        module = _importable(module)
    return f"{module}.{own}"


def _importable(module: str) -> str:
    """Return the name under which others import the script that is being run."""
    main = sys.modules.get(module)
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name)
    return MAIN if file is None else Path(file).stem


def modules_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the modules that may declare a task: the function's, and the one that calls us."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("detent."):
        frame = frame.f_back
    caller = None if frame is None else frame.f_globals.get("__name__")
    modules = dict.fromkeys((function.__module__, caller))
    return tuple(module for module in modules if module is not None)


def check_importable(function: Callable[..., Any], name: str) -> None:
    """Refuse a task that no other process could find."""
    problem = None
    if sys.platform == "win32":
        problem = "child processes need a POSIX system"
    elif "<" in getattr(function, "__qualname__", ""):  # <locals>, <lambda>
        problem = "it is defined inside a function; define it at the top of a module"
    elif function.__module__ == MAIN and not any(main_module()):
        problem = "it is defined in an interactive session; put it into a file"
    if problem is not None:
        raise ConfigError(f"task {name}: a child process could not import it: {problem}")


def main_module() -> tuple[str | None, str | None]:
    """Return the path of the script that this program was started with, or its module's name."""
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in (None, MAIN):
        return None, str(spec.name)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        return None, None
    return str(Path(file).resolve()), None


def import_main(path: str | None, name: str | None) -> ModuleType:
    """Import the parent's main module, in a child."""
    known = sys.modules.get(MAIN_IN_CHILD)
    if known is not None:
        return known
    module = ModuleType(MAIN_IN_CHILD)
    content = (
        runpy.run_module(name, run_name=MAIN_IN_CHILD, alter_sys=True)
        if name is not None
        else runpy.run_path(str(path), run_name=MAIN_IN_CHILD)
    )
    module.__dict__.update(content)
    # What it defined looks itself up under both names, for instance to read annotations.
    sys.modules[MAIN] = sys.modules[MAIN_IN_CHILD] = module
    return module


def find_task(
    name: str, modules: Sequence[str], main: tuple[str | None, str | None]
) -> Task[..., Any]:
    """Import modules until a task of that name is declared, and return it."""
    missing: ImportError | None = None
    for each in modules:
        try:
            module = import_main(*main) if each == MAIN else importlib.import_module(each)
        except ImportError as error:
            # A function may claim to be of a module that is not there; the next one may be.
            missing = missing or error
            continue
        for task in _declared(module, name):
            return task
    raise missing or UnknownTask(name)


def _declared(module: ModuleType, name: str) -> Iterator[Task[..., Any]]:
    """Yield the tasks of that name that a module holds, or an app in it."""
    for value in list(vars(module).values()):
        # By their real types and without asking them: modules hold proxies that answer badly.
        if issubclass(type(value), Task):
            if value.name == name:
                yield value
            continue
        if isinstance(value, type):
            # Its methods may be tasks, of an app that this module does not hold.
            for part in list(vars(value).values()):
                if issubclass(type(part), Task) and part.name == name:
                    yield part
        registry = inspect.getattr_static(value, "tasks", None)
        if issubclass(type(registry), Registry) and (task := registry.find(name)) is not None:
            yield task
