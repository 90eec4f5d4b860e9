"""Statements that stand outside of everything a test looks at."""

from tests.cluster.database import connected


async def execute(url: str, script: str, *args: object) -> None:
    """Run a statement on a connection of its own, or several without arguments."""
    async with connected(url) as connection:
        await connection.execute(script, *args)
