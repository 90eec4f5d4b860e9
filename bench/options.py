"""The command line of the benchmark as one frozen value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECTIONS = (
    *("drain", "enqueue", "latency", "claim", "retention", "idle", "memory", "sqlite"),
    "limits",
    "shape",
)
PEERS = ("pgqueuer", "procrastinate", "oban", "awa")
ABLATIONS = ("global-lock",)


@dataclass(frozen=True)
class Options:
    sections: tuple[str, ...]
    peers: tuple[str, ...]
    rounds: int
    jobs: int
    quick: bool
    full: bool
    scale: bool
    ablation: str | None
    json: Path | None
    server: str | None
    cap: float
    quiet_wait: float

    @property
    def enqueue_seconds(self) -> float:
        return 0.7 if self.quick else 2.0

    @property
    def latency_samples(self) -> int:
        return 60 if self.quick else 250

    @property
    def claims(self) -> int:
        """Measured claims per situation."""
        return 40 if self.quick else 200

    @property
    def big(self) -> int:
        """What "1M" means in the claim situations; the others are parts of it."""
        return 20_000 if self.quick else 1_000_000

    @property
    def idle_seconds(self) -> float:
        if self.quick:
            return 6.0
        return 60.0 if self.full else 20.0


def parse(arguments: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", metavar="SECTIONS", help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 5)")
    parser.add_argument("--n", type=int, dest="jobs", help="jobs per drain (default 100000)")
    parser.add_argument("--peers", help=f"some of {','.join(PEERS)}, or none (default all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--quick", action="store_true", help="one round, small numbers")
    parser.add_argument("--full", action="store_true", help="idle for 60 s, drain a million jobs")
    parser.add_argument(
        "--scale", action="store_true", help="measure 1 to 8 nodes and an idle cluster instead"
    )
    parser.add_argument("--ablation", choices=ABLATIONS, help="measure one design choice instead")
    parser.add_argument("--server", metavar="URL", help="a superuser's URL of a running server")
    parser.add_argument("--cap", type=float, default=15.0, help="longest drain in seconds")
    parser.add_argument("--quiet-wait", type=float, help="longest wait for a quiet machine")
    given = parser.parse_args(arguments)
    return Options(
        sections=_choose(parser, given.only, SECTIONS),
        peers=_choose(parser, given.peers, PEERS),
        rounds=given.rounds or (1 if given.quick else 5),
        jobs=given.jobs or (5_000 if given.quick else 100_000),
        quick=given.quick,
        full=given.full,
        scale=given.scale,
        ablation=given.ablation,
        json=given.json,
        server=given.server,
        cap=given.cap,
        quiet_wait=given.quiet_wait if given.quiet_wait is not None else (1 if given.quick else 10),
    )


def _choose(
    parser: argparse.ArgumentParser, text: str | None, known: tuple[str, ...]
) -> tuple[str, ...]:
    if text is None:
        return known
    chosen = {word.strip() for word in text.split(",")} - {"", "none"}
    unknown = chosen - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    return tuple(name for name in known if name in chosen)
