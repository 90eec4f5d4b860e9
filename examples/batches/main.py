"""A search index that takes documents by the hundred: one call for many jobs.

Callers enqueue single documents and await single results. Everything is in memory.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from detent import App, BatchItem, Fail, JobFailed, Retry

app = App("memory://")


@dataclass
class Document:
    """Something to be found."""

    number: int
    text: str


calls: list[int] = []


@app.task(batch=100, linger=0.05, retry=Retry(max_attempts=3, delay=timedelta(seconds=0)))
async def index(items: list[BatchItem[Document]]) -> list[int]:
    """Index many documents in one call, and return how long each of them is."""
    calls.append(len(items))
    for item in items:
        if not item.value.text:
            item.fail(Fail("an empty document"))
        elif item.value.number == 13 and item.ctx.attempt == 1:
            item.fail(ConnectionError("this shard did not answer"))
    return [len(item.value.text) for item in items]


async def main() -> None:
    """Index 250 documents, one of them empty, and one on an unlucky shard."""
    documents = [Document(number, f"document {number}") for number in range(249)]
    async with app.node(queues={"default": 2}):
        jobs = await app.enqueue_many([index.bind(document) for document in documents])
        empty = await index.enqueue(Document(249, ""))
        lengths = [await job.result(timeout=30) for job in jobs]
        print(f"{len(lengths)} documents, {sum(lengths)} characters")
        print(f"the unlucky one took {(await jobs[13].info()).attempt} attempts")
        try:
            await empty.result(timeout=30)
        except JobFailed as error:
            print(f"the last one: {(error.error or {}).get('message')}")
    print(f"at most {max(calls)} documents in a call, {sum(calls)} in {len(calls)} calls")


asyncio.run(main())
