"""What every section needs: a fresh database, a step inside a subject, nodes, fair rounds."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from bench.adapter import URL
from bench.environments import ROOT
from bench.options import Options
from bench.probe import RUN, Run
from bench.processes import Nodes, output_of, start_nodes, wait_until_quiet
from bench.results import Failure, Results, Sample
from bench.server import Server
from bench.subjects import Subject

STEP_WITHIN = 180.0

Measured = tuple[Mapping[str, float], float]


class MeasurementFailed(Exception):
    """One subject could not be measured; the others go on."""


class Harness:
    def __init__(self, options: Options, server: Server, interpreters: Mapping[str, str]) -> None:
        self.options = options
        self.server = server
        self.interpreters = interpreters
        self.results = Results()
        self.installed: set[str] = set()

    async def database(self, subject: Subject) -> str:
        """A database with the subject's schema and no jobs. The schema is installed once."""
        template = f"{subject.database}_template"
        if subject.name not in self.installed:
            await self.server.create(template)
            await self.call(subject, "install", database=template)
            await self.server.alone(template)
            self.installed.add(subject.name)
        await self.server.create(subject.database, template)
        return subject.database

    async def call(
        self,
        subject: Subject,
        command: str,
        *,
        database: str | None = None,
        extra: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Run one command of `bench.subject` in the subject's environment."""
        argv = [self.interpreter(subject), "-m", "bench.subject", subject.module, command]
        environment = self.environment(database or subject.database, extra)
        code, out, error = await output_of([*argv, json.dumps(arguments)], environment, STEP_WITHIN)
        if code:
            last = (error.strip().splitlines() or [f"exit code {code}"])[-1]
            raise MeasurementFailed(f"{command}: {last}")
        answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return answer

    def nodes(
        self, subject: Subject, count: int, run: Run, extra: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[Nodes]:
        rest = subject.node or ("-m", "bench.subject", subject.module, "node")
        environment = self.environment(subject.database, extra) | {RUN: str(run.folder)}
        argv = [self.interpreter(subject), *rest]
        return start_nodes(argv, count, environment, run.folder)

    def interpreter(self, subject: Subject) -> str:
        return sys.executable if subject.is_ours else self.interpreters[subject.name]

    def environment(self, database: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        url = self.server.url(database)
        ours = {URL: url, "DETENT_URL": url, "PYTHONPATH": ROOT, "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **ours, **(extra or {})}

    async def quiet(self) -> None:
        await wait_until_quiet(self.options.quiet_wait)

    async def rounds(
        self,
        section: str,
        cases: Sequence[str],
        subjects: Sequence[Subject],
        measure: Callable[[Subject, str], Awaitable[Measured]],
        count: int | None = None,
    ) -> None:
        """Each round measures every subject once in every case; the order rotates."""
        total = count or self.options.rounds
        for number in range(total):
            turn = number % max(len(subjects), 1)
            for case in cases:
                for subject in [*subjects[turn:], *subjects[:turn]]:
                    await self._measure(section, case, subject, number, measure)

    async def _measure(
        self,
        section: str,
        case: str,
        subject: Subject,
        number: int,
        measure: Callable[[Subject, str], Awaitable[Measured]],
    ) -> None:
        label = f"{section}, {case}, round {number + 1}: {subject.name}"
        try:
            values, foreign = await measure(subject, case)
        except MeasurementFailed as failure:
            self.results.failures.append(Failure(section, case, subject.name, number, str(failure)))
            say(f"{label} failed: {failure}")
        else:
            self.results.samples.append(
                Sample(section, case, subject.name, number, values, foreign)
            )
            shown = "  ".join(f"{name} {value:,.6g}" for name, value in values.items())
            say(f"{label}  {shown}")


def say(text: str) -> None:
    """Progress goes to standard error, so that standard output is the report alone."""
    print(text, file=sys.stderr, flush=True)
