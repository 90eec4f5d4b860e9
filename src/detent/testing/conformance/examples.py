"""How many random examples a store is asked about; more belong into tests of one store alone."""

from typing import Final

from hypothesis import HealthCheck, settings

#: A database answers in milliseconds, not microseconds, and one store serves all examples of a
#: test. The same test runs for several stores, as methods of several classes.
FEW: Final = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.differing_executors,
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)
