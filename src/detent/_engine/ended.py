"""Lets other nodes know in which lanes jobs have ended: their gates may be open now."""

from collections.abc import Callable, Mapping
from typing import Final

from detent._engine.lanes import ENDED
from detent.model.gates import told_lanes
from detent.spi.notifier import Hint, Notifier

TELL: Final = 0.05


class EndedLanes:
    """Lanes in which jobs have ended here, as far as others have not been told."""

    def __init__(self, notifier: Notifier | None, monotonic: Callable[[], float]) -> None:
        self._notifier = notifier
        self._monotonic = monotonic
        self._untold: dict[str, None] = {}
        self._tell_at = 0.0

    @property
    def next_at(self) -> float | None:
        """When others are to be told, if there is anything to tell."""
        return self._tell_at if self._untold else None

    def add(self, lanes: Mapping[str, None], *, awaited: bool) -> None:
        """Take note of ends; where nobody is likely to wait for them that is told later."""
        self._untold |= lanes
        if awaited:
            self._tell_at = 0.0

    def tell(self) -> None:
        """Tell what is to be told by now."""
        now = self._monotonic()
        if self._untold and now >= self._tell_at:
            self._tell_at = now + TELL
            lanes, self._untold = self._untold, {}
            if self._notifier is not None:
                # Of a few keys each: other nodes may wait for that very one.
                told = told_lanes(dict.fromkeys(lanes, ENDED))
                self._notifier.publish([Hint(lane, ENDED) for lane in told])
