"""What the shop does in the background: `detent node shop.jobs:app`."""

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import django
from django.apps import apps
from django.conf import settings
from django.db import close_old_connections

from detent import App, JobContext

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
if not apps.ready:  # in a node; inside Django it is
    django.setup()

from shop.models import Order  # not before setup()

P = ParamSpec("P")
R = TypeVar("R")

# The jobs live in Django's database, so that one transaction can cover orders and jobs.
app = App(f"sqlite:///{settings.DATABASES['default']['NAME']}")


def with_orm(function: Callable[P, R]) -> Callable[P, R]:
    """Do for a task what Django does for a request: drop connections that are old or broken."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        close_old_connections()
        try:
            return function(*args, **kwargs)
        finally:
            close_old_connections()

    return run


@app.task
@with_orm
def pack(ctx: JobContext, order_id: int) -> str:
    """Pack an order. It is there: the job and the order came with the same commit."""
    order = Order.objects.get(pk=order_id)
    ctx.log.info(f"packing {order}")
    order.status = "packed"
    order.save(update_fields=["status"])
    return str(order)
