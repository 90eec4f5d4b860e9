"""Plays seeds until one of them breaks a rule; run in a process that imports a mutated Detent.

`python hunt.py RULE LIMIT SEED [plan...]` plays SEED, then 0, 1, 2, ... up to LIMIT seeds in all,
and prints the first that broke RULE, or `none`.
"""

import gc
import sys

from detent.testing.simulation.__main__ import plan_of
from detent.testing.simulation.run import simulate


def main(arguments: list[str]) -> int:
    rule, limit, first, *options = arguments
    plan = plan_of(options)
    gc.disable()
    others = (seed for seed in range(int(limit)) if seed != int(first))
    for number, seed in enumerate((int(first), *others)):
        if number == int(limit):
            break
        broken = simulate(seed, plan).broken
        if any(f"BROKEN: {rule}:" in line for line in broken):
            sys.stdout.write(f"{seed}\n")
            return 0
        gc.collect()
    sys.stdout.write("none\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
