"""Jobs, schedules and workflows for Python, on the database you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from detent.version import __version__

if TYPE_CHECKING:
    from detent.app import App
    from detent.batch import BatchItem
    from detent.context import JobContext
    from detent.control_flow import Fail, RetryAfter, Snooze
    from detent.daemons import DaemonContext
    from detent.depends import Depends
    from detent.errors import (
        ClaimLost,
        ConfigError,
        Conflict,
        DetentError,
        InvalidArguments,
        InvalidJob,
        InvalidResult,
        JobCanceled,
        JobFailed,
        JobNotFound,
        JobTimeout,
        KeyTaken,
        LockLost,
        LockTaken,
        PayloadTooLarge,
        SchemaMismatch,
        StoreError,
        StoreUnavailable,
        TermLost,
        UnknownTask,
        WrongConnection,
        WrongThread,
    )
    from detent.handle import Job
    from detent.model.breaker import Breaker
    from detent.model.job import JobInfo, Priority
    from detent.model.rates import Rate
    from detent.model.retry import Retry
    from detent.model.state import State
    from detent.principal import acting_as
    from detent.tasks import Task

__all__ = [
    "App",
    "BatchItem",
    "Breaker",
    "ClaimLost",
    "ConfigError",
    "Conflict",
    "DaemonContext",
    "Depends",
    "DetentError",
    "Fail",
    "InvalidArguments",
    "InvalidJob",
    "InvalidResult",
    "Job",
    "JobCanceled",
    "JobContext",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "JobTimeout",
    "KeyTaken",
    "LockLost",
    "LockTaken",
    "PayloadTooLarge",
    "Priority",
    "Rate",
    "Retry",
    "RetryAfter",
    "SchemaMismatch",
    "Snooze",
    "State",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "TermLost",
    "UnknownTask",
    "WrongConnection",
    "WrongThread",
    "__version__",
    "acting_as",
]

# Names are imported when they are first asked for, so that a command such as `detent jobs list`
# does not load an engine that it never starts. Those above are for people and type checkers; a
# test keeps both lists alike.
_HOMES: Final = {
    "detent.app": ("App",),
    "detent.batch": ("BatchItem",),
    "detent.context": ("JobContext",),
    "detent.control_flow": ("Fail", "RetryAfter", "Snooze"),
    "detent.daemons": ("DaemonContext",),
    "detent.depends": ("Depends",),
    "detent.errors": (
        "ClaimLost",
        "ConfigError",
        "Conflict",
        "DetentError",
        "InvalidArguments",
        "InvalidJob",
        "InvalidResult",
        "JobCanceled",
        "JobFailed",
        "JobNotFound",
        "JobTimeout",
        "KeyTaken",
        "LockLost",
        "LockTaken",
        "PayloadTooLarge",
        "SchemaMismatch",
        "StoreError",
        "StoreUnavailable",
        "TermLost",
        "UnknownTask",
        "WrongConnection",
        "WrongThread",
    ),
    "detent.handle": ("Job",),
    "detent.model.breaker": ("Breaker",),
    "detent.model.job": ("JobInfo", "Priority"),
    "detent.model.rates": ("Rate",),
    "detent.model.retry": ("Retry",),
    "detent.model.state": ("State",),
    "detent.principal": ("acting_as",),
    "detent.tasks": ("Task",),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'detent' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
