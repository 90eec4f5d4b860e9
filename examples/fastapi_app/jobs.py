"""What the shop does in the background."""

import asyncio
from datetime import timedelta

from database import URL, Order, engine
from pydantic import BaseModel
from sqlalchemy.orm import Session

from detent import App, JobContext, Retry

app = App(URL)


class Report(BaseModel):
    """What a report comes to."""

    days: int
    orders: int


@app.task(timeout=timedelta(minutes=5))
async def report(ctx: JobContext, days: int) -> Report:
    """Look at one day after the other, and say how far it is."""
    orders = 0
    for day in range(1, days + 1):
        await asyncio.sleep(0.05)  # a slow service
        orders += day
        await ctx.progress(day / days, f"day {day} of {days}")
    return Report(days=days, orders=orders)


@app.task(retry=Retry(max_attempts=5))
def confirm(order_id: int) -> str:
    """Confirm an order. It is there: the job and the order came with the same commit."""
    with Session(engine) as session, session.begin():
        order = session.get_one(Order, order_id)
        order.status = "confirmed"
        return f"{order.quantity} x {order.item}"
