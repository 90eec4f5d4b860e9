"""Plays seeds again: `python -m detent.testing.simulation SEED [SEED ...]`."""

import sys

from detent.testing.simulation.run import simulate

USAGE = """\
usage: python -m detent.testing.simulation SEED [SEED ...]
       python -m detent.testing.simulation FIRST-LAST

One seed prints its whole history; several print one line each.
"""


def main(arguments: list[str]) -> int:
    """Play the seeds; return 1 if one of them broke a rule, 2 if they are no seeds."""
    try:
        seeds = [seed for argument in arguments for seed in _seeds(argument)]
    except ValueError:
        seeds = []
    if not seeds:
        sys.stderr.write(USAGE)
        return 2
    failed = 0
    for seed in seeds:
        report = simulate(seed)
        if len(seeds) == 1:
            sys.stdout.write("\n".join(report.history) + "\n")
        verdict = report.explain() if report.broken else f"seed {seed} kept all rules"
        sys.stdout.write(f"{verdict} (history {report.digest[:16]})\n")
        failed += bool(report.broken)
    return 1 if failed else 0


def _seeds(argument: str) -> range:
    first, _, last = argument.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
