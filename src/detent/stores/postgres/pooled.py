"""What is different behind a transaction pooler: nothing can be kept in a session.

Every transaction may run in another session, and that session serves others too. So no statement
is prepared under a name, and what the planner is told is told for one transaction at a time. That
costs two more round trips for each statement; without it large batches would be compiled anew each
time (58 ms instead of 3 for a thousand finishes), and rows locked in whatever order a plan has.
"""

from contextlib import suppress
from typing import Any, Final

from detent.stores.postgres.failures import DRIVER_ERRORS, breaks_connection

# Every statement of this package finds its rows by index. A plan that was cached while the
# tables were empty must not go on reading them whole when they are full.
PLANNER: Final = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    # A bitmap would lock rows in the order of their place on disk, not of their ids.
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# Between two statements of one of our transactions nothing takes time. A node that is frozen there
# would keep its locks for ever; ctx.transaction() has other rules, see lock_claim.sql.
RESTS: Final = {"idle_in_transaction_session_timeout": "10000"}
# Each statement sees what was committed while the one before it waited for a lock: whatever the
# database's owner has chosen for others, our steps rest on it.
ISOLATION: Final = {"default_transaction_isolation": "read committed"}
SET_LOCAL: Final = "; ".join(
    f"SET LOCAL {name} = {value}" for name, value in {**PLANNER, **RESTS}.items()
)
# One message, and so one round trip.
BEGIN: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED; {SET_LOCAL}"

_TYPES: Final = (
    *("bigint", "boolean", "bytea", "float4", "float8"),
    *("integer", "smallint", "text", "timestamptz", "uuid"),
)
_EVERY_TYPE: Final = "SELECT " + ", ".join(
    f"${number}::{name}[]" for number, name in enumerate(_TYPES, 1)
)


async def learn_types(connection: Any) -> None:
    """Let the driver look up the types of our arguments, in one transaction that is undone.

    It would do so by itself, with a setting for the session, when it first meets each of them.
    """
    transaction = connection.transaction()
    await transaction.start()
    await connection.fetch(_EVERY_TYPE, *([] for _ in _TYPES))
    await transaction.rollback()


async def fetch(connection: Any, sql: str, args: tuple[Any, ...]) -> list[Any]:
    """Run one statement in a transaction of its own and return its rows."""
    await connection.execute(BEGIN)
    try:
        rows: list[Any] = await connection.fetch(sql, *args)
    except Exception as error:
        # What ends the connection is not worth an answer: the caller drops it.
        if not breaks_connection(error):
            await _undo(connection)
        raise
    await connection.execute("COMMIT")
    return rows


async def _undo(connection: Any) -> None:
    """End a transaction that failed; whoever cannot even do that is not used again."""
    with suppress(*DRIVER_ERRORS):
        await connection.execute("ROLLBACK")
        return
    connection.terminate()
