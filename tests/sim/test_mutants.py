"""If these fail, the simulation passes although a guarantee is broken: see mutants/README.md."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from detent.testing.simulation.__main__ import plan_of
from detent.testing.simulation.run import simulate
from tests.sim.mutants.__main__ import README, readme
from tests.sim.mutants.mutants import FAST, hunt, load, plant, planted

MUTANTS = load()
FAST_ONES = [each for each in MUTANTS if each.fast]


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 30
    assert len(FAST_ONES) >= 12


def test_the_table_tells_of_all() -> None:
    assert README.read_text() == readme(), "run: python -m tests.sim.mutants --readme"


def test_every_patch_still_applies() -> None:
    with planted(None) as source:
        for mutant in MUTANTS:
            plant(mutant, source.parent, "--check")


@pytest.mark.slow
@pytest.mark.timeout(600)  # there are many of them by now, a few seconds each
def test_known_bugs_are_noticed() -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        proofs = list(pool.map(lambda each: hunt(each, FAST), FAST_ONES))
    caught = list(zip(FAST_ONES, proofs, strict=True))
    assert [each.name for each, proof in caught if proof is None] == []
    for mutant, proof in caught:
        # A test is part of this suite, and passes with the unmutated code or fails there.
        if proof is None or mutant.test is not None:
            continue
        report = simulate(int(proof), plan_of(mutant.plan))
        assert not report.broken, f"{mutant.name} proves nothing: {report.explain()}"
