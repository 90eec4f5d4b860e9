"""Tasks that are given what they need: a pool for the node, a session for each job, an object.

Everything is in memory, so the program needs no server.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from detent import App, Depends, JobContext, JobFailed, Retry

app = App("memory://")


@dataclass
class Pool:
    """What one would not open for every job."""

    host: str
    sessions: int = 0


@dataclass
class Session:
    """What must not be shared between jobs."""

    pool: Pool
    number: int
    tenant: str


async def get_pool() -> AsyncIterator[Pool]:
    """Open a pool when the first job needs it, and close it when the node stops."""
    print("the pool opens")
    pool = Pool("db.example.com")
    yield pool
    print(f"the pool closes after {pool.sessions} sessions")


async def get_session(
    ctx: JobContext, pool: Pool = Depends(get_pool, scope="node")
) -> AsyncIterator[Session]:
    """Open a session for one attempt; it ends with it, whatever happens."""
    pool.sessions += 1
    session = Session(pool, pool.sessions, tenant=ctx.tags[0])
    try:
        yield session
    except ValueError:
        print(f"session {session.number} rolls back")
        raise
    print(f"session {session.number} commits")


@app.task
async def pay(amount: int, *, session: Session = Depends(get_session)) -> str:
    """Pay; callers say how much, and nothing of sessions."""
    if amount < 0:
        raise ValueError(f"cannot pay {amount}")
    return f"{session.tenant} paid {amount} at {session.pool.host}"


class Reports:
    """An object that the node builds once; its methods are tasks."""

    def __init__(self, pool: Pool = Depends(get_pool, scope="node")) -> None:
        self.pool = pool
        self.written = 0

    @app.task
    async def write(self, title: str) -> str:
        """Write a report."""
        self.written += 1
        return f"report {self.written} from {self.pool.host}: {title}"


async def main() -> None:
    """Run a few jobs on a node, and then without one, with something else in the pool's place."""
    async with app.node():
        paid = await pay.options(tags=["acme"]).enqueue(100)
        print(await paid.result(timeout=10))
        refused = await pay.options(tags=["acme"], retry=Retry(max_attempts=1)).enqueue(-1)
        try:
            await refused.result(timeout=10)
        except JobFailed as error:
            print((error.error or {}).get("message"))
        for title in ("sales", "stock"):
            report = await Reports.write.enqueue(title)
            print(await report.result(timeout=10))

    print("in a test:")
    with app.override(get_session, lambda: Session(Pool("nowhere"), 0, tenant="a test")):
        print(await pay(7))
    print(await Reports(Pool("by hand")).write("costs"))


asyncio.run(main())
