"""If this fails, jobs are lost or done by the dead when everything breaks; see `make chaos`."""

from tests.chaos.plan import MANY, Plan
from tests.chaos.run import run


async def test_a_little_chaos_breaks_no_rule() -> None:
    verdict = await run(Plan(seed=7, jobs=4_000, nodes=3, longest=100.0, least=MANY.scaled(0.06)))
    print(verdict.text())  # noqa: T201  shown when it fails
    assert not verdict.broken, verdict.text()
