"""`python -m bench`: start a server, measure, print the report."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

from bench import ablation, claim, enqueue, environments, idle, latency, memory, report
from bench.drain import Drains
from bench.harness import Harness, say
from bench.options import Options, parse
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
    wanted = () if options.ablation else tuple(PEERS[name] for name in options.peers)
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


async def measure(harness: Harness, subjects: list[Subject]) -> None:
    sections = harness.options.sections
    nodes = [subject for subject in subjects if subject is not RAW]
    if "drain" in sections:
        await Drains(harness).run(nodes)
    if "enqueue" in sections:
        await enqueue.run(harness, [subject for subject in subjects if subject is not PROTOTYPE])
    if "latency" in sections:
        await latency.run(harness, nodes)
    if "claim" in sections and RAW in subjects:
        await claim.run(harness)
    if "idle" in sections:
        await idle.run(harness, [subject for subject in nodes if subject is not PROTOTYPE])
    if "memory" in sections and DETENT in subjects:
        await memory.run(harness, DETENT)


async def main() -> int:
    options = parse()
    cast = await choose(options)
    async with open_server(options.server) as server:
        harness = Harness(options, server, cast.interpreters)
        if options.ablation:
            await ablation.run(harness)
        else:
            await measure(harness, cast.subjects)
        results = harness.results
        print(report.render(results, options, server.version, cast.versions, cast.missing))
        if options.json:
            text = json.dumps({**results.as_json(), "versions": cast.versions}, indent=1)
            options.json.write_text(text + "\n")
    return 0 if results.samples else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
