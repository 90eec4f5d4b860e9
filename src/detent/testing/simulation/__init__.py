"""The real engine in a made-up world: nodes, a store, people and trouble, all from one seed.

    from detent.testing.simulation import check

    check(42)       # raises `Broken` with the rules that were broken, and how to replay it

Three to five processes with a node each work on one memory store in virtual time. The line to it
is slow, loses requests and replies, and is cut; processes are killed, stopped for longer than
their lease, blocked, restarted and given wrong clocks; the store restarts and dawdles. A client
enqueues every kind of job, some of which kill their process, and an operator cancels, pauses and
retries. Which of these troubles a run has follows from its seed, like everything else: the same
seed gives the same history, line by line, on every machine.

`python -m detent.testing.simulation 42` prints it; `make sim SEEDS=20000` plays many.
"""

from detent.testing.simulation.plan import FAULTS, Plan
from detent.testing.simulation.run import Broken, Report, check, simulate

__all__ = ["FAULTS", "Broken", "Plan", "Report", "check", "simulate"]
