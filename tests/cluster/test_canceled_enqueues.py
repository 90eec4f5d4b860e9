"""If this fails, callers that give up cost a connection each: a web server whose clients leave."""

import asyncio
import gc
import random
from typing import Any, Final

from detent import App
from tests.cluster.database import connected

CALLS: Final = 200
SESSIONS: Final = "SELECT pid FROM pg_stat_activity WHERE application_name = 'detent'"


async def test_callers_that_give_up_leave_connections_alone(postgres_url: str) -> None:
    mishaps: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: mishaps.append(about))
    chance = random.Random(15)
    async with App(postgres_url) as app, connected(postgres_url) as connection:

        @app.task(name="note")
        async def note(number: int) -> None: ...

        async def give_up(number: int) -> None:
            options: dict[str, Any] = [{}, {"key": f"k-{number}"}, {"unique": f"u-{number}"}][
                number % 3
            ]
            call = asyncio.ensure_future(note.options(**options).enqueue(number))
            await asyncio.sleep(chance.uniform(0, 0.004))
            call.cancel()
            await asyncio.wait([call])

        async def sessions() -> dict[int, None]:
            return dict.fromkeys(row["pid"] for row in await connection.fetch(SESSIONS))

        # All connections of the pool are open before the first caller gives up.
        await asyncio.gather(*(note.options(key=f"w-{n}").enqueue(n) for n in range(50)))
        before = await sessions()
        for number in range(CALLS):
            await give_up(number)
        await asyncio.gather(*(give_up(CALLS + number) for number in range(CALLS)))
        many = asyncio.ensure_future(app.enqueue_many([note.bind(n) for n in range(2_000)]))
        await asyncio.sleep(0.001)
        many.cancel()
        await asyncio.wait([many])
        await note.enqueue(-1)
        after = await sessions()
    gc.collect()
    await asyncio.sleep(0)
    assert mishaps == []
    assert [pid for pid in before if pid not in after] == []
    assert len(after) <= app.config.store.pool_size
