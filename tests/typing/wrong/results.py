"""Results used as what they are not are refused."""

from dataclasses import dataclass

from detent import App, Job, Task

app = App("memory://")


@dataclass
class Order:
    number: int


@app.task
async def send(to: str, body: str = "") -> str:
    return to + body


@app.task
def count(words: list[str]) -> int:
    return len(words)


@app.task
async def orders(customer: int) -> list[Order]:
    return [Order(customer)]


@app.task
async def find(number: int) -> Order | None:
    return Order(number) if number else None


async def results() -> None:
    sent = await send.enqueue("ada")
    number: int = await sent.result()  # error: a str
    text: str = await (await count.enqueue(["a"])).result()  # error: an int
    assert number, text
    assert sent.result() + "!"  # error: not awaited
    assert (await (await orders.enqueue(1)).result())[0].price  # error: no such field
    assert (await (await find.enqueue(1)).result()).number  # error: may be None
    job: Job[int] = sent  # error: Job[str]
    assert job.result_type  # error: no such attribute
    await sent.result(timeout=["10s"])  # error: a duration
    await sent.enqueue("grace")  # error: a job is not a task


async def direct() -> None:
    number: int = await send("ada")  # error: a str
    text: str = send("ada")  # error: not awaited
    assert number, text
    assert await count(["a"])  # error: nothing to await


async def many() -> None:
    jobs: list[Job[int]] = await app.enqueue_many([send.bind("ada")])  # error: Job[str]
    assert jobs


mailer: Task[[str], int] = send  # error: returns a str
