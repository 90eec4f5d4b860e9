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
from tests.sim.mutants.mutants import FAST, PATIENT, Mutant, hunt, keep, load, table

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
        seeds = list(pool.map(lambda each: report(each, limit), chosen))
    if options.keep:
        for mutant, seed in zip(chosen, seeds, strict=True):
            if seed is not None:
                keep(mutant, seed)
        README.write_text(readme())
    caught = [seed is not None for seed in seeds]
    sys.stdout.write(f"{sum(caught)} of {len(chosen)} mutants noticed\n")
    return 0 if all(caught) else 1


def report(mutant: Mutant, limit: int) -> int | None:
    """Hunt one and say what came of it; return the seed that proves it."""
    began = time.monotonic()
    seed = hunt(mutant, limit)
    took = time.monotonic() - began
    innocent = seed is None or not simulate_quietly(mutant, seed)
    verdict = f"seed {seed}" if seed is not None else f"NOT NOTICED by {limit} seeds"
    if not innocent:
        verdict += ", but so does the unmutated code: NOT A PROOF"
    sys.stdout.write(f"{mutant.name:40} {verdict:12} {took:6.1f} s  {mutant.rule}\n")
    sys.stdout.flush()
    return seed if innocent else None


def simulate_quietly(mutant: Mutant, seed: int) -> bool:
    """Return whether the unmutated code breaks a rule with this seed."""
    with _one_at_a_time:
        return bool(simulate(seed, plan_of(mutant.plan)).broken)


def readme() -> str:
    """Return the README with the table of today."""
    return README.read_text().partition(MARK)[0] + MARK + "\n" + table(load())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
