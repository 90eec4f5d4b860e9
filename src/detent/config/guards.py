"""The settings of what stands around calls and doors: circuit breakers and rate limits."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from detent.config.readers import one_of, read_bool
from detent.config.sections import Section

HYBRID: Final = "hybrid"
STRICT: Final = "strict"


@dataclass(frozen=True, slots=True)
class BreakersConfig(Section):
    """`[breakers]`: whether circuit breakers do anything."""

    section: ClassVar[str] = "breakers"

    enabled: Annotated[bool, read_bool] = True
    """Whether tasks with `breaker=` are stopped and counted; if not, they just run."""


@dataclass(frozen=True, slots=True)
class RateLimitConfig(Section):
    """`[rate_limit]`: where `app.rate_limiter()` counts."""

    section: ClassVar[str] = "rate_limit"

    mode: Annotated[str, one_of(HYBRID, STRICT)] = HYBRID
    """`hybrid` counts names such as `user:42` and `ip:10.0.0.1` in each process, and all others in
    the store; `strict` counts everything in the store."""
