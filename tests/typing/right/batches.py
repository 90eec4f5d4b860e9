"""A batch task takes many items, and its callers one value each."""

from dataclasses import dataclass
from datetime import timedelta
from typing import reveal_type

from detent import App, BatchItem, Depends

app = App("memory://")


@dataclass
class Doc:
    text: str


class Index:
    def add(self, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]


@app.task(batch=100, linger=0.05, queue="index")
async def index(items: list[BatchItem[Doc]]) -> None:
    for item in items:
        reveal_type(item.value)  # Doc
        item.snooze(timedelta(seconds=1))
        item.fail(ValueError(item.value.text))
        item.retry_after(timedelta(seconds=1))
        item.succeed(item.ctx.attempt)


@app.task(batch=10, linger=timedelta(seconds=1))
async def count(items: list[BatchItem[str]], index: Index = Depends(Index)) -> list[int]:
    return index.add([item.value for item in items])


@app.task(batch=10)
def blocking(items: list[BatchItem[str]]) -> list[int] | None:
    return [len(item.value) for item in items]


@app.task(batch=10)
def silent(items: list[BatchItem[str]]) -> None: ...


class Shelf:
    @app.task(batch=10)
    async def put(self, items: list[BatchItem[Doc]]) -> list[str]:
        return [item.value.text for item in items]


async def enqueue() -> None:
    reveal_type(await index.enqueue(Doc("a")))  # Job[None]
    reveal_type(await count.enqueue("a"))  # Job[int]
    reveal_type(await blocking.options(queue="bulk").enqueue("a"))  # Job[int]
    reveal_type(silent.enqueue_sync("a"))  # Job[None]
    reveal_type(await Shelf.put.enqueue(Doc("a")))  # Job[str]
    reveal_type(await count([BatchItem("a")], Index()))  # Sequence[int] | None
    reveal_type(BatchItem(Doc("a")))  # BatchItem[Doc]
