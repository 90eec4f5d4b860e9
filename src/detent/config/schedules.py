"""The settings of schedules: what is counted as missed, and how long code may be away."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, ClassVar, Final

from detent.config.rules import read_keep
from detent.config.sections import Duration, Section

LEAST_GRACE: Final = timedelta(minutes=5)
"""Running nodes say each minute or two what they declare; one that is late must not lose it."""


@dataclass(frozen=True, slots=True)
class SchedulesConfig(Section):
    """`[schedules]`: when a slot counts as missed, and when a schedule of code is gone."""

    section: ClassVar[str] = "schedules"

    misfire_threshold: Duration = timedelta(seconds=60)
    """A slot that is fired later than this was missed, for schedules that do not say it
    themselves."""
    grace: Annotated[timedelta | None, read_keep] = timedelta(minutes=10)
    """How long a schedule stays that code once declared and no running node declares any more:
    longer than a deploy takes, and than all nodes of an app are ever away while others run. At
    least 5 minutes, or `"forever"`."""
    poll_interval: Duration = timedelta(seconds=30)
    """How often a node looks for schedules that it was not told of; slots that it knows of are
    fired in time anyway."""
    keep_slots: Annotated[timedelta | None, read_keep] = timedelta(days=30)
    """How long it stays known what became of a slot, unless its job lives longer."""

    def _check(self) -> None:
        if self.grace is not None:
            self._at_least("grace", LEAST_GRACE, "long enough for nodes that are late")
