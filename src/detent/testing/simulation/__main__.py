"""Plays seeds: `python -m detent.testing.simulation SEED`, or `1-1000` on all cores."""

import argparse
import sys
from collections.abc import Sequence

from detent.testing.simulation.campaign import campaign
from detent.testing.simulation.plan import FAULTS, WEATHERS, Plan, checked
from detent.testing.simulation.run import simulate

DEFAULT = Plan()


def main(arguments: list[str]) -> int:
    """Play the seeds; return 1 if one of them broke a rule."""
    options = _parser().parse_args(arguments)
    plan = _plan(options)
    seeds = [seed for given in options.seeds for seed in given]
    if len(seeds) > 1:
        return campaign(seeds, plan, options.processes)
    report = simulate(seeds[0], plan)
    sys.stdout.write("\n".join(report.history) + "\n")
    verdict = report.explain() if report.broken else f"seed {report.seed} kept all rules"
    sys.stdout.write(f"{verdict} (history {report.digest[:16]})\n")
    return 1 if report.broken else 0


def plan_of(arguments: Sequence[str]) -> Plan:
    """Return the plan that such arguments mean: `["--nodes", "3"]`."""
    return _plan(_parser().parse_args(["0", *arguments]))


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        nodes=options.nodes,
        jobs=options.jobs,
        weather=options.weather,
        faults=options.faults,
        schedules=options.schedules,
        breakers=options.breakers,
        sinks=options.sinks,
        workers=options.workers,
        lanes=options.lanes,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m detent.testing.simulation",
        description="One seed prints its whole history; several print what they saw together.",
        epilog="faults: " + "; ".join(f"{name}: {text}" for name, text in FAULTS.items()),
    )
    parser.add_argument("seeds", metavar="SEED", nargs="+", type=_seeds, help="42, or 1-100")
    parser.add_argument("--nodes", type=int, help="how many nodes there are")
    parser.add_argument("--jobs", type=int, default=DEFAULT.jobs, help="how many jobs are enqueued")
    parser.add_argument("--weather", choices=WEATHERS, help="how bad the lines to the store are")
    parser.add_argument("--faults", type=_faults, help="kill,pause: these and no others; or none")
    parser.add_argument("--schedules", type=int, help="how many schedules fire every few seconds")
    parser.add_argument(
        "--breakers", action="store_true", help="some jobs call a service that is down at times"
    )
    parser.add_argument(
        "--sinks", action="store_true", help="somebody outside is told how jobs end"
    )
    parser.add_argument(
        "--workers", action="store_true", help="some jobs need a worker, of which there are few"
    )
    parser.add_argument(
        "--lanes", action="store_true", help="some jobs need a capability, which all nodes offer"
    )
    parser.add_argument("--processes", type=int, help="on how many processes; all cores if not")
    return parser


def _seeds(argument: str) -> range:
    first, _, last = argument.partition("-")
    return range(int(first), int(last or first) + 1)


def _faults(argument: str) -> tuple[str, ...]:
    try:
        return tuple(checked(() if argument == "none" else tuple(argument.split(","))))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
