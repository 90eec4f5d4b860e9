"""The shop's web process. It enqueues jobs and shows them; it also runs them, unless told not to.

uvicorn main:web                  the web and a node in one process
NODE=off uvicorn main:web         the web alone; start nodes with: detent node jobs:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from database import Base, Order, engine
from fastapi import FastAPI, HTTPException
from jobs import app, confirm, report
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from detent import JobNotFound, State


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Connect, and run a node beside the web; shutting down lets its jobs come to their end."""
    Base.metadata.create_all(engine)
    async with AsyncExitStack() as stack:
        stack.callback(engine.dispose)
        await stack.enter_async_context(app)
        if os.environ.get("NODE") != "off":
            await stack.enter_async_context(app.node(concurrency=20))
        yield


web = FastAPI(title="Shop", lifespan=lifespan)


class Accepted(BaseModel):
    """What was asked for will be done; `job` says where to look."""

    job: UUID


@web.post("/reports", status_code=202)
async def make_report(days: Annotated[int, Field(ge=1, le=365)]) -> Accepted:
    """Enqueue, and answer at once."""
    job = await report.enqueue(days)
    return Accepted(job=job.id)


class JobView(BaseModel):
    """A job as its owner may see it."""

    state: State
    progress: float | None
    message: str | None
    result: Any = None


@web.get("/jobs/{job_id}")
async def show_job(job_id: UUID) -> JobView:
    """Say how far a job is, and what came of it."""
    try:
        info = await app.jobs.get(job_id)
    except JobNotFound as error:
        raise HTTPException(404, str(error)) from error
    view = JobView(state=info.state, progress=info.progress, message=info.progress_message)
    if info.state is State.SUCCEEDED:
        view.result = await app.jobs.result(job_id)
    return view


class NewOrder(BaseModel):
    """What a customer sends."""

    item: str
    quantity: Annotated[int, Field(ge=1)]


class OrderAccepted(Accepted):
    """The same, and the number of the order."""

    order: int


@web.post("/orders", status_code=202)
def place_order(new: NewOrder) -> OrderAccepted:
    """Store the order and the job that confirms it in one transaction: both, or neither."""
    with Session(engine) as session, session.begin():
        order = Order(item=new.item, quantity=new.quantity)
        session.add(order)
        session.flush()  # gives the order its id
        job = confirm.options(within=session).enqueue_sync(order.id)
        if new.quantity > 100:
            raise HTTPException(409, f"there are no {new.quantity} x {new.item}")
        return OrderAccepted(job=job.id, order=order.id)


@web.get("/orders/{order_id}")
def show_order(order_id: int) -> dict[str, Any]:
    """Show an order and what has become of it."""
    with Session(engine) as session:
        order = session.get(Order, order_id)
        if order is None:
            raise HTTPException(404, f"no order {order_id}")
        return {"item": order.item, "quantity": order.quantity, "status": order.status}
