"""The shop's pages, which only speak JSON."""

import json

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from shop.jobs import pack
from shop.models import Order

CREDIT = 1_000


class PaymentDeclined(Exception):
    """The customer cannot pay."""


def pay(order: Order) -> None:
    """Take the money."""
    if order.price > CREDIT:
        raise PaymentDeclined(f"{order.price} is more than {CREDIT}")


@csrf_exempt  # so that the example can be tried with curl
@require_POST
def place_order(request: HttpRequest) -> HttpResponse:
    """Store the order and the job that packs it in one transaction: both, or neither."""
    wanted = json.loads(request.body)
    try:
        with transaction.atomic():
            order = Order.objects.create(item=wanted["item"], price=wanted["price"])
            job = pack.options(within=connection).enqueue_sync(order.pk)
            pay(order)
    except PaymentDeclined as declined:
        return JsonResponse({"error": str(declined)}, status=402)
    return JsonResponse({"order": order.pk, "job": str(job.id)}, status=202)


@require_GET
def show_order(request: HttpRequest, order_id: int) -> HttpResponse:
    """Show an order and what has become of it."""
    order = get_object_or_404(Order, pk=order_id)
    return JsonResponse({"item": order.item, "price": order.price, "status": order.status})
