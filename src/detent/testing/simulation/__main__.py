"""Plays seeds again: `python -m detent.testing.simulation SEED`."""

import argparse
import sys

from detent.testing.simulation.line import WEATHERS
from detent.testing.simulation.run import Plan, simulate

DEFAULT = Plan()


def main(arguments: list[str]) -> int:
    """Play the seeds; return 1 if one of them broke a rule."""
    parser = argparse.ArgumentParser(
        prog="python -m detent.testing.simulation",
        description="One seed prints its whole history; several print one line each.",
    )
    parser.add_argument("seeds", metavar="SEED", nargs="+", type=_seeds, help="42, or 1-100")
    parser.add_argument("--nodes", type=int, default=DEFAULT.nodes, help="how many nodes there are")
    parser.add_argument("--jobs", type=int, default=DEFAULT.jobs, help="how many jobs are enqueued")
    parser.add_argument("--weather", choices=WEATHERS, help="how bad the lines to the store are")
    options = parser.parse_args(arguments)
    plan = Plan(nodes=options.nodes, jobs=options.jobs, weather=options.weather)
    seeds = [seed for given in options.seeds for seed in given]
    failed = 0
    for seed in seeds:
        report = simulate(seed, plan)
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
