"""The settings of events and alerts."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, ClassVar

from detent.config.readers import whole
from detent.config.sections import Duration, DurationOrZero, Section


@dataclass(frozen=True, slots=True)
class EventsConfig(Section):
    """`[events]`: how long the application, and sinks outside, may take to hear of something."""

    section: ClassVar[str] = "events"

    buffer: Annotated[int, whole(1, 10_000_000)] = 10_000
    """How many events wait for one listener; then the oldest are dropped."""
    drain_timeout: DurationOrZero = timedelta(seconds=5)
    """How long listeners may go on when a node stops or the app is closed."""
    keep_undeliverable: Duration = timedelta(days=30)
    """How long events stay in the outbox that no sink would take."""


@dataclass(frozen=True, slots=True)
class AlertsConfig(Section):
    """`[alerts]`: how often failures of one kind are told of."""

    section: ClassVar[str] = "alerts"

    window: Duration = timedelta(hours=1)
    """How long failures of one task and kind are only counted after the first one was told."""
    most_kinds: Annotated[int, whole(1, 10_000)] = 20
    """How many kinds of failures of one task are told in a window; one alert counts the rest."""
    keep: Duration = timedelta(days=90)
    """How long alerts stay on the list after the last failure that they count."""
