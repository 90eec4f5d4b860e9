"""`make chaos`: `python -m tests.chaos --jobs 100000 --seed 1`."""

import argparse
import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.chaos.plan import DEFAULT_LEASE, MANY, Plan
from tests.chaos.run import run
from tests.chaos.verdict import Verdict

JOBS: Final = 100_000
# With a lease that is ten times as long, jobs and faults take ten times as long, too.
JOBS_AT_DEFAULTS: Final = 15_000


def main() -> int:
    """Run the chaos, print the ledger, and return 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, help=f"fewer bring fewer faults (default {JOBS:,})")
    parser.add_argument("--seed", type=int, default=1, help="another order of faults")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument(
        "--defaults", action="store_true", help="the default lease of 15 s, and fewer faults"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for all logs")
    given = parser.parse_args()
    jobs = given.jobs or (JOBS_AT_DEFAULTS if given.defaults else JOBS)
    plan = Plan(seed=given.seed, jobs=jobs, nodes=given.nodes, least=MANY.scaled(jobs / JOBS))
    if given.defaults:
        plan = replace(plan, lease=DEFAULT_LEASE)
    try:
        verdict = asyncio.run(_run(plan, given.keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; every process was ended")  # noqa: T201  for whoever stopped it
        return 130
    print(verdict.text())  # noqa: T201  the ledger
    return 1 if verdict.broken else 0


async def _run(plan: Plan, keep: Path | None) -> Verdict:
    task = asyncio.current_task()
    assert task is not None
    # SIGTERM unwinds like Ctrl-C.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run(plan, say=True, keep=keep)


if __name__ == "__main__":
    sys.exit(main())
