"""`make ha`: failovers on real Patroni and etcd, and what they cost Detent's users.

Three members in synchronous mode, three nodes, callers, schedules, a limit and a daemon. Primaries
are killed, switched over and frozen. Nothing is installed: etcd, HAProxy and PgBouncer are those of
the machine or come from their Debian packages, unpacked into `.matrix/`; Patroni comes from PyPI,
into the temporary directory.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.chaos.verdict import Verdict
from tests.debian import MissingProgram, find_program
from tests.ha.members import DEFAULT, SHORT
from tests.ha.trial import FAULTS, SETUPS, Plan, run

LONGEST: Final = 2400.0


def main() -> int:
    """Run the trial, print the ledgers, and return 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.ha", description=__doc__)
    parser.add_argument("--setup", choices=SETUPS, action="append", help="only this; repeatable")
    parser.add_argument("--fault", choices=FAULTS, action="append", help="only this; repeatable")
    parser.add_argument("--rounds", type=int, help="how often each, instead of 3, 3, 3 and 2")
    parser.add_argument("--defaults", action="store_true", help="Patroni's own, longer times")
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds for a set-up")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for all logs")
    given = parser.parse_args()
    chosen = given.fault or [name for name, count in FAULTS.items() if count]
    counts = {name: given.rounds or max(FAULTS[name], 1) for name in chosen}
    times = DEFAULT if given.defaults else SHORT
    plans = [Plan(setup, times, in_turn(counts)) for setup in given.setup or SETUPS]
    try:
        for program, package in (("etcd", "etcd-server"), ("haproxy", None), ("pgbouncer", None)):
            find_program(program, package)
        broken = [asyncio.run(_run(plan, given.longest, given.keep)).broken for plan in plans]
    except MissingProgram as error:
        print(f"make ha: {error}", file=sys.stderr)  # noqa: T201  for the caller
        return 2
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped; every process was ended")  # noqa: T201  for whoever stopped it
        return 130
    return 1 if any(broken) else 0


def in_turn(counts: Mapping[str, int]) -> list[str]:
    """Return each fault so often, one kind after the other."""
    rounds = range(max(counts.values()))
    return [name for number in rounds for name, count in counts.items() if number < count]


async def _run(plan: Plan, longest: float, keep: Path | None) -> Verdict:
    task = asyncio.current_task()
    assert task is not None
    # SIGTERM unwinds like Ctrl-C.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    print(f"{plan.setup}: {len(plan.faults)} failovers", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="detent-ha-") as name:
        folder = Path(name)
        if keep is not None:
            folder = keep / plan.setup
            folder.mkdir(parents=True)
        async with asyncio.timeout(longest):
            verdict = await run(plan, folder)
    print(verdict.text(), flush=True)  # noqa: T201  the ledger
    return verdict


if __name__ == "__main__":
    sys.exit(main())
