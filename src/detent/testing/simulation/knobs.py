"""Makes pages and batches so small that a run of forty jobs meets their ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from detent._engine import backlog, dispatch, families, schedule, scribe
from detent._engine.maintenance import rescue

SMALL: Final[tuple[tuple[ModuleType, str, int], ...]] = (
    (backlog, "BATCH", 2),
    (dispatch, "AT_ONCE", 1),
    (families, "FEW", 1),
    (families, "SHORTEST_WALK", 2),
    (rescue, "PAGE", 1),
    (schedule, "PAGE", 2),
    (schedule, "SLOTS", 3),
    (scribe, "BATCH", 2),
)


@contextmanager
def turned(*, small: bool) -> Iterator[None]:
    """Turn the knobs for the length of a run."""
    if not small:
        yield
        return
    usual = [getattr(module, name) for module, name, _ in SMALL]
    for module, name, value in SMALL:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(SMALL, usual, strict=True):
            setattr(module, name, value)
