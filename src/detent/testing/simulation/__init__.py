"""The real engine in a made-up world: nodes, a store, people and trouble, all from one seed.

    from detent.testing.simulation import check

    check(42)       # raises `Broken` with the rules that were broken, and how to replay it

Two nodes (or as many as `Plan` says) work on one memory store in virtual time, over a line that
is slow, loses requests and replies, and is cut; a client enqueues every kind of job, an operator
cancels, pauses and retries, a saboteur restarts nodes. Nothing comes from outside: the same seed
gives the same history, line by line, on every machine. `python -m detent.testing.simulation 42`
prints it.
"""

from detent.testing.simulation.run import Broken, Plan, Report, check, simulate

__all__ = ["Broken", "Plan", "Report", "check", "simulate"]
