"""A daemon for the tests of leaders: it writes down its heartbeats, each under its term."""

import asyncio
import os
from typing import Final

import asyncpg

from detent import App
from detent.daemons import DaemonContext
from detent.errors import TermLost

TABLE: Final = """
    CREATE TABLE beat (
        number bigint GENERATED ALWAYS AS IDENTITY, term bigint, pid integer,
        at timestamptz DEFAULT clock_timestamp()
    )
"""
PAUSE: Final = 0.02

app = App()


@app.daemon(name="heart", restart_delay=0.1, grace="2s")
async def heart(ctx: DaemonContext) -> None:
    """Beat until told to stop; what is written under an old term must not count."""
    connection = await asyncpg.connect(app.config.store.url)
    try:
        while not ctx.should_stop:
            async with connection.transaction():
                await ctx.fenced(connection)
                await connection.execute(
                    "INSERT INTO beat (term, pid) VALUES ($1, $2)", ctx.term, os.getpid()
                )
            await asyncio.sleep(PAUSE)
    except TermLost:
        ctx.log.warning("a heartbeat was refused")
        raise
    finally:
        connection.terminate()
