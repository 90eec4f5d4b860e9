"""If these fail, a job goes while one runs that it has to wait for, or waits for ever."""

from uuid import UUID

import pytest

from detent.model.heirs import heir_of

FIRST, SECOND, THIRD, RUNS = (UUID(int=number) for number in range(1, 5))


@pytest.mark.parametrize(
    "ended, heir",
    [
        pytest.param({THIRD: None}, None, id="it waited for nobody"),
        pytest.param({THIRD: RUNS}, RUNS, id="it waited for one that runs"),
        pytest.param({SECOND: None, THIRD: SECOND}, None, id="all that it waited for has ended"),
        pytest.param({FIRST: RUNS, SECOND: FIRST, THIRD: SECOND}, RUNS, id="a chain has ended"),
    ],
)
def test_those_behind_wait_for_the_first_that_lives(
    ended: dict[UUID, UUID | None], heir: UUID | None
) -> None:
    assert heir_of(ended, THIRD) == heir
