"""Batches of the wrong shape, and values that are not what their items hold, are refused."""

from detent import App, BatchItem

app = App("memory://")


@app.task(batch="100")  # error: a number
async def size_as_text(items: list[BatchItem[str]]) -> None: ...


@app.task(linger=1)  # error: only with a batch
async def linger_alone(to: str) -> None: ...


@app.task(batch=10)
async def index(items: list[BatchItem[str]]) -> list[int]:
    items[0].fail("bad")  # error: an exception
    items[0].snooze(5)  # error: a timedelta
    return [len(item.value) for item in items]


async def enqueue() -> None:
    await index.enqueue(1)  # error: not a str
    await index.enqueue(["a", "b"])  # error: one value, not many
    await index.enqueue("a", "b")  # error: too many
    text: str = await (await index.enqueue("a")).result()  # error: an int
    assert text
