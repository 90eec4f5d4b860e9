"""Without this program no page would say what an app, a context or an error is called in Python."""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator
from types import MemberDescriptorType
from typing import Any

import detent
from detent import App, BatchItem, DaemonContext, Job, JobContext, JobInfo, Task, errors

#: What has no underscore because other parts of Detent need it, and is not for its users.
INSIDE = {
    "App": {"client", "codecs", "node_parts", "store"},
    "Leaders": {"ask", "close", "forget", "tell"},
    "Locks": {"close", "forget", "keep", "lock", "tell"},
    "Nodes": {"bury"},
}
#: Other places that users import from, and where they are explained.
MODULES = [
    ("detent.config", "`Config` and its sections", "[configuration](configuration.md)"),
    ("detent.events", "all events", "[events](events.md)"),
    ("detent.errors", "all errors, also those that `detent` does not hold", "[below](#errors)"),
    ("detent.triggers", "cron, intervals, windows, dates", "[triggers](../guides/triggers.md)"),
    ("detent.calendars", "what schedules leave out", "[triggers](../guides/triggers.md)"),
    ("detent.sinks", "webhooks, and how to verify them", "[events](../guides/events.md)"),
    ("detent.alerts", "whom to tell of failures", "[events](../guides/events.md)"),
    ("detent.spi", "what parts of your own promise", "[the promises](../internals/spi.md)"),
]

INTRODUCTION = """\
Everything that a program imports, in the words of the code itself. Editors and type checkers know
all of it: the package is typed."""
MAKING = """\
`App()` takes its settings from the environment and `detent.toml`; `App("postgresql://...")` has
another URL; `App(config=Config(...))` reads nothing. `notifier=` and `store=` are for parts of your
own. `async with app:` opens and closes it."""
RAISING = """\
Whatever Detent raises on purpose is a `DetentError`. Those with a star can be imported from
`detent`, all of them from `detent.errors`."""


def names_page(note: str, table: Callable[..., str]) -> str:
    """Return the page of all names that a program uses."""
    app = App("memory://")
    faces = [name for name, value in members(App) if is_face(value, app, name)]
    parts = [
        "# Python",
        note,
        INTRODUCTION,
        "## detent",
        table(("name", "is"), [(f"`{name}`", told(value)) for name, value in top_level()]),
        "Elsewhere:",
        table(("module", "holds", "see"), [(f"`{name}`", *rest) for name, *rest in MODULES]),
        "## App",
        MAKING,
        table(("name", "does"), rows("app", App)),
        *itertools.chain.from_iterable(
            (
                f"### app.{name}",
                table(("name", "does"), rows(f"app.{name}", type(getattr(app, name)))),
            )
            for name in faces
        ),
        "## Tasks and jobs",
        "What `@app.task` makes of a function:",
        table(("name", "does"), rows("task", Task)),
        "What `enqueue` returns:",
        table(("name", "does"), rows("job", Job)),
        "`await job.info()`, `app.jobs.get` and `app.jobs.list` return `JobInfo`. Its fields:",
        ", ".join(f"`{field.name}`" for field in dataclasses.fields(JobInfo))
        + ".\nArguments, params, options, result and error are the bytes that are stored.",
        "## Inside",
        "`ctx: JobContext`, in a task:",
        table(("name", "does"), rows("ctx", JobContext)),
        "`ctx: DaemonContext`, in a daemon:",
        table(("name", "does"), rows("ctx", DaemonContext)),
        "`item: BatchItem`, in a batch:",
        table(("name", "does"), rows("item", BatchItem)),
        "## Errors",
        RAISING,
        table(("error", "is a", "means"), error_rows()),
    ]
    return "\n\n".join(parts) + "\n"


def top_level() -> Iterator[tuple[str, Any]]:
    for name in detent.__all__:
        value = getattr(detent, name)
        is_error = isinstance(value, type) and issubclass(value, errors.DetentError)
        if not is_error and not name.startswith("_"):
            yield name, value


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what users call or read, in the order in which it was written."""
    for name in dict.fromkeys(name for base in kind.__mro__ for name in vars(base)):
        if not name.startswith("_") and name not in INSIDE.get(kind.__name__, ()):
            yield name, inspect.getattr_static(kind, name)


def is_face(value: Any, app: App, name: str) -> bool:
    """Tell `app.jobs` from `app.task`, which is called."""
    return isinstance(value, property) and not callable(getattr(app, name))


def rows(owner: str, kind: type) -> Iterator[tuple[str, str]]:
    for name, value in members(kind):
        if isinstance(value, MemberDescriptorType):
            yield f"`{owner}.{name}`", SLOTS[kind.__name__, name]
        elif isinstance(value, property):
            yield f"`{owner}.{name}`", told(value.fget)
        else:
            function = getattr(value, "__func__", value)
            called = JobContext.__name__ if isinstance(value, classmethod) else owner
            yield f"`{spelled(called, name, function)}`", told(function)


#: Attributes that stand in `__slots__`, where no docstring can.
SLOTS = {
    ("Job", "created"): "False when a key led to a job that was there.",
    ("Job", "id"): "Its id.",
    ("BatchItem", "error"): "What `fail` was given, else None.",
    ("BatchItem", "value"): "What the job was given.",
}


def spelled(owner: str, name: str, function: Callable[..., Any]) -> str:
    """Return how a function is called: `await app.jobs.get(job_id)`."""
    kinds = list(inspect.signature(function).parameters.values())[1:]
    shown = [str(each.replace(annotation=each.empty, default=each.empty)) for each in kinds]
    star = next((at for at, each in enumerate(kinds) if each.kind is each.KEYWORD_ONLY), None)
    if star is not None and not any(each.kind is each.VAR_POSITIONAL for each in kinds):
        shown.insert(star, "*")
    awaited = "await " if inspect.iscoroutinefunction(function) else ""
    awaited = "async for ... in " if inspect.isasyncgenfunction(function) else awaited
    return f"{awaited}{owner}.{name}({', '.join(shown)})"


def error_rows() -> Iterator[tuple[str, str, str]]:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.DetentError):
            star = " *" if name in detent.__all__ else ""
            base = kind.__bases__[-1].__name__
            yield f"`{name}`{star}", f"`{base}`", told(kind)


def told(value: Any) -> str:
    """Return the first paragraph of a docstring, which is all that a table has room for."""
    text = inspect.getdoc(value)
    assert text, f"{value} has no docstring"
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")
