"""Receivers of events outside: a webhook, and what its own receiver needs to trust it."""

from detent.sinks.signature import verify_signature
from detent.sinks.webhook import WebhookSink
from detent.spi.outbox import OutboxEvent

__all__ = ["OutboxEvent", "WebhookSink", "verify_signature"]
