"""What a task depends on has the type that its provider gives, and is not the caller's to give."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, reveal_type

from detent import App, Depends, JobContext
from detent.tasks import BoundCall

app = App("memory://")


class Smtp:
    def __init__(self, host: str = "localhost") -> None:
        self.host = host


def plain() -> Smtp:
    return Smtp()


async def awaited() -> Smtp:
    return Smtp()


def generated() -> Iterator[Smtp]:
    yield Smtp()


async def generated_async(ctx: JobContext) -> AsyncIterator[Smtp]:
    yield Smtp(ctx.queue)


@contextmanager
def managed() -> Generator[Smtp]:
    yield Smtp()


@asynccontextmanager
async def managed_async() -> AsyncGenerator[Smtp]:
    yield Smtp()


reveal_type(Depends(plain))  # Smtp
reveal_type(Depends(awaited))  # Smtp
reveal_type(Depends(generated))  # Smtp
reveal_type(Depends(generated_async, scope="job"))  # Smtp
reveal_type(Depends(managed))  # Smtp
reveal_type(Depends(managed_async, scope="app"))  # Smtp
reveal_type(Depends(Smtp, scope="node"))  # Smtp
reveal_type(Depends())  # Any


@app.task
async def send(to: str, *, smtp: Smtp = Depends(managed_async, scope="node")) -> str:
    return to + smtp.host


@app.task(queue="mail")
def send_blocking(ctx: JobContext, to: str, smtp: Smtp = Depends(plain)) -> str:
    return to + smtp.host + ctx.queue


Mail = Annotated[Smtp, Depends(awaited)]


@app.task
async def send_annotated(to: str, smtp: Mail = Depends()) -> str:
    return to + smtp.host


async def enqueue() -> None:
    reveal_type(await send.enqueue("ada"))  # Job[str]
    reveal_type(await send_blocking.enqueue("ada"))  # Job[str]
    reveal_type(await send_annotated.options(queue="bulk").enqueue("ada"))  # Job[str]
    reveal_type(await send("ada"))  # str
    reveal_type(await send("ada", smtp=Smtp()))  # str


# Methods: `self` is nobody's to pass.


class Mailer:
    def __init__(self, smtp: Smtp = Depends(plain)) -> None:
        self.smtp = smtp

    @app.task
    async def send(self, to: str) -> int:
        return len(to)

    @app.task(queue="mail")
    async def watched(self, to: str, *, times: int = 1, ctx: JobContext = Depends()) -> int:
        return len(to) * times + ctx.attempt

    @app.task
    def blocking(self, to: str) -> int:
        return len(to)

    @app.task
    def blocking_watched(self, to: str, ctx: JobContext = Depends()) -> int:
        return len(to) + ctx.attempt


async def methods(mailer: Mailer, ctx: JobContext) -> None:
    reveal_type(Mailer.send.bind)  # (to: str) -> BoundCall[int]
    reveal_type(await Mailer.watched.enqueue("ada", times=2))  # Job[int]
    reveal_type(Mailer.blocking.enqueue_sync("ada"))  # Job[int]
    reveal_type(await Mailer.blocking_watched.options(queue="bulk").enqueue("ada"))  # Job[int]
    reveal_type(await mailer.send("ada"))  # int
    reveal_type(mailer.blocking("ada"))  # int
    reveal_type(await mailer.watched("ada", times=3, ctx=ctx))  # int
    reveal_type(await mailer.send.enqueue("ada"))  # Job[int]


@app.task
async def put(key: str, value: Any) -> str:
    return key + str(value)


@app.task
def put_blocking(key: str, value: object, times: int = 1) -> str:
    return key + str(value) * times


async def anything() -> None:
    reveal_type(put.bind)  # (key: str, value: Any) -> BoundCall[str]
    reveal_type(await put.enqueue("a", value=[1]))  # Job[str]
    reveal_type(await put_blocking.enqueue("a", 2, times=3))  # Job[str]


# Around.


async def tracing(ctx: JobContext, proceed: Any) -> Any:
    ctx.log.info("before")
    return await proceed()


app.middleware(tracing)


@app.task(middleware=[tracing])
async def traced(to: str) -> str:
    return to


@app.enqueue_middleware
def stamp(call: BoundCall[Any]) -> BoundCall[Any]:
    return call.with_options(tags=["stamped"])


async def overriding() -> None:
    with app.override(plain, lambda: Smtp("test")):
        reveal_type(await traced.enqueue("ada"))  # Job[str]
