"""Turns the driver's errors into ours, by code and never by text."""

import asyncio
from typing import Final

import asyncpg

from detent.errors import (
    ConstraintViolated,
    SchemaMismatch,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from detent.stores.postgres.answers import NoPrimaryError

CONSTRAINTS: Final = {"23505": "unique", "23503": "foreign key", "23514": "check"}
READ_ONLY: Final = "25006"
# Deadlock, serialization failure, and a server that became a standby: the statement did nothing
# and can be tried again, in the last case on another connection.
RETRYABLE: Final = ("40P01", "40001", READ_ONLY)
# Undefined table, column, schema or function: the schema is not the one this code knows.
_SCHEMA: Final = ("42P01", "42703", "3F000", "42883")
# Connection exceptions, shutdowns, recovery, too many connections, lock and query timeouts,
# read-only after a failover: all of them may pass.
_LOCKED: Final = "55P03"
_CONNECTION: Final = ("08", "57P", "53300", "57014", READ_ONLY)
# A server that lacks space or memory, or whose disk fails: the statement did nothing, and the
# connection goes on. 53300, too many connections, is the exception.
_SHORT: Final = ("53", "58")
_PASSING: Final = (*_CONNECTION, *_SHORT, _LOCKED)
# A statement that took too long: whatever else is wrong, the server is not.
_ONLY_SLOW: Final = "57014"

DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # "cannot switch to state ...": a server that shut down between two messages of one call.
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


def translate(error: BaseException) -> StoreError:
    """Return our error for one of `DRIVER_ERRORS`; the caller raises it from that one."""
    code = code_of(error)
    if code in CONSTRAINTS:
        name = getattr(error, "constraint_name", None) or "?"
        return ConstraintViolated(CONSTRAINTS[code], name, _describe(error))
    if code in _SCHEMA:
        return SchemaMismatch(
            f"the database has no Detent schema of this version ({error}); run: detent migrate"
        )
    if code == READ_ONLY:
        return StoreUnavailable(
            "the server takes no writes: it is a standby, or read-only by its settings; let "
            f"[store] url name the primary, or all servers of the cluster ({_describe(error)})"
        )
    if isinstance(error, NoPrimaryError):
        return StoreUnavailable(str(error))
    if code == _LOCKED:
        return StoreBusy(f"another transaction has locked a row: {_describe(error)}")
    if _is_short(code):
        return StoreUnavailable(f"the database cannot do it now: {_describe(error)} ({code})")
    if is_passing(error):
        return StoreUnavailable(f"the database cannot be reached: {_describe(error)}")
    return StoreError(f"the database refused: {_describe(error)} (SQLSTATE {code or 'none'})")


def is_passing(error: BaseException) -> bool:
    """Whether the same call may well succeed later."""
    broken_off = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncpg.InternalClientError)
    if isinstance(error, broken_off):
        return True
    if isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError):
        # "connection is closed" and its kin; a DataError is an InterfaceError and a ValueError.
        return True
    return code_of(error).startswith(_PASSING)


def breaks_connection(error: BaseException) -> bool:
    """Whether the connection is of no more use after it."""
    code = code_of(error)
    return is_passing(error) and code != _LOCKED and not _is_short(code)


def _is_short(code: str) -> bool:
    return code.startswith(_SHORT) and not code.startswith(_CONNECTION)


def is_retryable(error: BaseException) -> bool:
    """Whether a transaction was rolled back only because of others."""
    return code_of(error) in RETRYABLE


def is_of_the_server(error: BaseException) -> bool:
    """Whether it is likely that all connections to this server are of no more use.

    It has gone, has become a standby, or does not answer.
    """
    return breaks_connection(error) and code_of(error) != _ONLY_SLOW


def code_of(error: BaseException) -> str:
    """Return the SQLSTATE of an error of any driver, empty when it did not come from the server."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error).strip() or type(error).__name__
