"""Hunts mutants: `python -m tests.sim.mutants [NAME ...]`."""

import argparse
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from detent.testing.simulation.__main__ import plan_of
from detent.testing.simulation.run import simulate
from tests.sim.mutants.mutants import FAST, PATIENT, ROOT, Mutant, hunt, keep, load, passes, table

README = Path(__file__).with_name("README.md")
# Small pages are set for the whole process: no two runs at once.
_one_at_a_time = threading.Lock()
MARK = "<!-- the table is written by: python -m tests.sim.mutants --readme -->\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="parts of names; all if not given")
    parser.add_argument("--fast", action="store_true", help="only those that few seeds notice")
    parser.add_argument("--keep", action="store_true", help="keep the seeds that noticed them")
    parser.add_argument("--readme", action="store_true", help="write the table of the README anew")
    options = parser.parse_args(arguments)
    if options.readme:
        README.write_text(readme())
        return 0
    chosen = [
        each
        for each in load()
        if (not options.names or any(name in each.name for name in options.names))
        and (each.fast or not options.fast)
    ]
    limit = FAST if options.fast else PATIENT
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        proofs = list(pool.map(lambda each: report(each, limit), chosen))
    if options.keep:
        for mutant, proof in zip(chosen, proofs, strict=True):
            if proof is not None:
                keep(mutant, proof)
        README.write_text(readme())
    caught = [proof is not None for proof in proofs]
    sys.stdout.write(f"{sum(caught)} of {len(chosen)} mutants noticed\n")
    return 0 if all(caught) else 1


def report(mutant: Mutant, limit: int) -> str | None:
    """Hunt one and say what came of it; return the seed or the test that proves it."""
    began = time.monotonic()
    proof = hunt(mutant, limit)
    took = time.monotonic() - began
    innocent = proof is None or is_innocent(mutant, proof)
    by = "its test" if mutant.test is not None else f"seed {proof}"
    verdict = by if proof is not None else f"NOT NOTICED by {mutant.test or f'{limit} seeds'}"
    if not innocent:
        verdict += ", but so does the unmutated code: NOT A PROOF"
    sys.stdout.write(f"{mutant.name:40} {verdict:12} {took:6.1f} s  {mutant.rule}\n")
    sys.stdout.flush()
    return proof if innocent else None


def is_innocent(mutant: Mutant, proof: str) -> bool:
    """Return whether the unmutated code keeps all rules with this seed, or passes this test."""
    if mutant.test is not None:
        return passes(proof, ROOT / "src")
    with _one_at_a_time:
        return not simulate(int(proof), plan_of(mutant.plan)).broken


def readme() -> str:
    """Return the README with the table of today."""
    return README.read_text().partition(MARK)[0] + MARK + "\n" + table(load())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
