"""`python -m bench`: start a server, measure, print the report."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import (
    ablation,
    claim,
    enqueue,
    environments,
    idle,
    latency,
    limits,
    memory,
    report,
    retention,
    scale,
    shape,
    sqlite,
)
from bench.bars import BARS
from bench.drain import Drains
from bench.harness import Harness, say
from bench.options import Options, parse
from bench.results import Failure, Results
from bench.server import open_server
from bench.subjects import DETENT, PEERS, PROTOTYPE, RAW, Subject


@dataclass(frozen=True)
class Cast:
    """Who takes part: those that can be run here, and why the others are absent."""

    subjects: list[Subject]
    interpreters: dict[str, str]
    versions: dict[str, str]
    missing: dict[str, str]


async def choose(options: Options) -> Cast:
    python = await environments.find_python()
    cast = Cast([], {}, {}, {})
    alone = options.ablation or options.scale
    wanted = () if alone else tuple(PEERS[name] for name in options.peers)
    for subject in (DETENT, PROTOTYPE, RAW, *wanted):
        interpreter, problem = await environments.prepare(subject, python)
        if problem:
            cast.missing[subject.name] = problem
            say(f"{subject.name} is left out: {problem}")
            continue
        cast.interpreters[subject.name] = interpreter
        cast.versions[subject.name] = await environments.version(subject, interpreter)
        cast.subjects.append(subject)
    return cast


Section = Callable[[], Coroutine[Any, Any, None]]


def plan(harness: Harness, subjects: list[Subject]) -> dict[str, Section]:
    """What each section does, with those who can take part in it."""
    nodes = [subject for subject in subjects if subject is not RAW]
    products = [subject for subject in nodes if subject is not PROTOTYPE]
    producers = [subject for subject in subjects if subject is not PROTOTYPE]
    if harness.options.ablation:
        return {ablation.SECTION: lambda: ablation.run(harness)}
    if harness.options.scale:
        return {scale.SECTION: lambda: scale.run(harness)}
    sections: dict[str, Section] = {
        "drain": lambda: Drains(harness).run(nodes),
        "enqueue": lambda: enqueue.run(harness, producers),
        "latency": lambda: latency.run(harness, nodes),
        "idle": lambda: idle.run(harness, products),
    }
    if RAW in subjects:
        sections["claim"] = lambda: claim.run(harness)
        sections["retention"] = lambda: retention.run(harness)
    if DETENT in subjects:
        sections["memory"] = lambda: memory.run(harness, DETENT)
        sections[sqlite.SECTION] = lambda: sqlite.run(harness)
        sections[limits.SECTION] = lambda: limits.run(harness)
        sections[shape.SECTION] = lambda: shape.run(harness)
    return {name: sections[name] for name in harness.options.sections if name in sections}


async def measure(harness: Harness, sections: dict[str, Section]) -> None:
    for name, section in sections.items():
        try:
            await section()
        except Exception as error:  # noqa: BLE001 - the other sections are still worth their time
            failure = Failure(name, "", "the section", 0, f"{type(error).__name__}: {error}")
            harness.results.failures.append(failure)
            say(f"{name} failed: {failure.reason}")


def stop_gently() -> None:
    """SIGTERM unwinds like Ctrl-C: the nodes and the server are ended, not left to nobody."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def write_json(path: Path, results: Results, cast: Cast) -> None:
    bars = [{"what": bar.what, "limit": bar.limit, "verdict": bar.verdict(results)} for bar in BARS]
    whole = {**results.as_json(), "bars": bars, "versions": cast.versions, "missing": cast.missing}
    path.write_text(json.dumps(whole, indent=1) + "\n")


async def main() -> int:
    options = parse()
    stop_gently()
    cast = await choose(options)
    async with open_server(options.server) as server:
        harness = Harness(options, server, cast.interpreters)
        try:
            await measure(harness, plan(harness, cast.subjects))
        except asyncio.CancelledError:
            say("stopped; the report has what was measured until now")
        results = harness.results
        print(report.render(results, options, server.version, cast.versions, cast.missing))
        if options.json:
            write_json(options.json, results, cast)
    return 0 if results.samples else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
