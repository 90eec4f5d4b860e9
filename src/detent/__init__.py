"""Jobs, schedules and workflows for Python, on the database you already have."""

from detent.app import App
from detent.context import JobContext
from detent.control_flow import Fail, RetryAfter, Snooze
from detent.errors import (
    ClaimLost,
    ConfigError,
    Conflict,
    DetentError,
    InvalidArguments,
    InvalidJob,
    JobCanceled,
    JobFailed,
    JobNotFound,
    JobTimeout,
    KeyTaken,
    PayloadTooLarge,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    UnknownTask,
    WrongThread,
)
from detent.jobs import Job
from detent.model.job import JobInfo, Priority
from detent.model.retry import Retry
from detent.model.state import State
from detent.tasks import Task
from detent.version import __version__

__all__ = [
    "App",
    "ClaimLost",
    "ConfigError",
    "Conflict",
    "DetentError",
    "Fail",
    "InvalidArguments",
    "InvalidJob",
    "Job",
    "JobCanceled",
    "JobContext",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "JobTimeout",
    "KeyTaken",
    "PayloadTooLarge",
    "Priority",
    "Retry",
    "RetryAfter",
    "SchemaMismatch",
    "Snooze",
    "State",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "UnknownTask",
    "WrongThread",
    "__version__",
]
