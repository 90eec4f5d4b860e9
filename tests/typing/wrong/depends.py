"""Providers of something else, and callers that pass what is not theirs, are refused."""

from collections.abc import AsyncIterator
from typing import Any

from detent import App, Depends

app = App("memory://")


class Smtp:
    host = "localhost"


async def get_smtp() -> AsyncIterator[Smtp]:
    yield Smtp()


@app.task
async def other_type(to: str, smtp: int = Depends(get_smtp)) -> str:  # error: it gives an Smtp
    return to + str(smtp)


@app.task
async def no_scope(to: str, smtp: Smtp = Depends(get_smtp, scope="call")) -> str:  # error: none
    return to + smtp.host


@app.task
async def no_provider(to: str, smtp: Smtp = Depends("smtp")) -> str:  # error: a function
    return to + smtp.host


@app.task
async def send(to: str, *, smtp: Smtp = Depends(get_smtp)) -> str:
    return to + smtp.host


class Mailer:
    @app.task
    async def send(self, to: str) -> str:
        return to


async def enqueue(mailer: Mailer) -> None:
    await send.enqueue()  # error: missing
    await send.enqueue("ada", smtp="mine")  # error: not even of its type
    await Mailer.send.enqueue(1)  # error: wrong type
    await Mailer.send.enqueue(mailer, "ada")  # error: the object is not the caller's to pass
    await mailer.send.enqueue()  # error: missing
    await mailer.send(1)  # error: wrong type


def not_a_call(call: int) -> int:
    return call


app.enqueue_middleware(not_a_call)  # error: it takes and returns calls


async def not_around(ctx: Any) -> Any:
    return ctx


@app.task(middleware=[not_around])  # error: it takes what proceeds, too
async def around(to: str) -> str:
    return to


app.override(get_smtp, Smtp())  # error: what makes one
