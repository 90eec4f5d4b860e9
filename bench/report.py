"""The report: one table per section, the bars, the machine and the noise."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from bench import ablation, scale, shape
from bench.bars import BARS, MB, OURS, Bar
from bench.options import Options
from bench.processes import QUIET
from bench.results import Results
from bench.subjects import DETENT, PEERS, PROTOTYPE, RAW
from bench.tables import middle, table, whole

# A column: its title, and what it says of a subject in a case.
Column = tuple[str, Callable[[Results, str, str, str], str]]


def shown(metric: str, digits: int = 0, unit: float = 1.0) -> Callable[..., str]:
    return lambda results, *place: middle(results.spread(*place, metric), digits, unit)


def spread(metric: str, digits: int = 0) -> Callable[..., str]:
    return lambda results, *place: whole(results.spread(*place, metric), digits)


def times(under: str) -> Callable[..., str]:
    return lambda results, *place: middle(results.ratio(*place, under, "rate"), 2)


def resident(results: Results, section: str, case: str, subject: str) -> str:
    before = results.spread(section, case, subject, "resident_before")
    after = results.spread(section, case, subject, "resident_after")
    return f"{middle(before, 0, MB)} to {middle(after, 0, MB)}"


DRAIN: Sequence[Column] = (
    ("jobs", shown("jobs")),
    ("jobs/s", spread("rate")),
    ("to commit", shown("settled_rate")),
    ("x pgqueuer", times("pgqueuer")),
    ("x prototype", times("prototype")),
    ("node µs", shown("node_us", 1)),
    ("PG µs", shown("server_us", 1)),
    ("stmt/job", shown("statements", 4)),
    ("commit/job", shown("commits", 4)),
    ("RSS MB", resident),
)
ENQUEUE: Sequence[Column] = (
    ("jobs/s", spread("rate")),
    ("x raw", times("raw")),
    ("x pgqueuer", times("pgqueuer")),
)
LATENCY: Sequence[Column] = (
    ("p50 ms", spread("p50", 2)),
    ("p95 ms", spread("p95", 2)),
    ("p99 ms", spread("p99", 2)),
    ("lost", shown("lost")),
)
IDLE: Sequence[Column] = (
    ("statements/s", shown("statements", 2)),
    ("% of a core", shown("cpu_percent", 2)),
)
MEMORY: Sequence[Column] = (
    ("idle MB", shown("empty", 0, MB)),
    ("at a tenth MB", shown("early", 0, MB)),
    ("at the end MB", shown("late", 0, MB)),
)
ABLATION: Sequence[Column] = (
    ("jobs/s", spread("rate")),
    ("node µs", shown("node_us", 1)),
    ("PG µs", shown("server_us", 1)),
    ("stmt/job", shown("statements", 4)),
)
CLAIM: Sequence[Column] = (
    ("server p50 ms", shown("p50", 2)),
    ("server p99 ms", shown("p99", 2)),
    ("rows/s", shown("rate")),
    ("of fresh", shown("of_fresh", 2)),
    ("call p50 ms", shown("call_p50", 2)),
)
RETENTION: Sequence[Column] = (
    ("server p50 ms", shown("p50", 2)),
    ("server p99 ms", shown("p99", 2)),
    ("call p50 ms", shown("call_p50", 2)),
    ("call p99 ms", shown("call_p99", 2)),
    ("claims", shown("claims")),
    ("pruned", shown("pruned")),
    ("pruned/s", shown("rate")),
    ("s", shown("seconds", 1)),
    ("page p50 ms", shown("page_p50", 1)),
    ("page p99 ms", shown("page_p99", 1)),
)
SQLITE: Sequence[Column] = (
    ("jobs", shown("jobs")),
    ("jobs/s", spread("rate")),
    ("twice", shown("twice")),
    ("RSS MB", shown("resident", 0, MB)),
    ("% of a core", shown("cpu_percent", 2)),
)
SCALE: Sequence[Column] = (
    ("jobs/s", spread("rate")),
    ("x 1 node", lambda results, _section, case, _subject: middle(scale.of_one(results, case), 2)),
    ("of alone", shown("of_alone", 2)),
    ("node µs", shown("node_us", 1)),
    ("PG µs", shown("server_us", 1)),
    ("stmt/job", shown("statements", 4)),
    ("stmt/s", shown("statements_a_second", 2)),
    ("% of a core", shown("cpu_percent", 2)),
)
SHAPE: Sequence[Column] = (
    ("jobs/s", spread("rate")),
    ("p50 ms", shown("p50", 2)),
    ("p99 ms", shown("p99", 2)),
    (
        "of smallest",
        lambda results, _section, case, _subject: middle(shape.of_smallest(results, case), 2),
    ),
    ("stmt/job", shown("statements", 4)),
    ("PG µs", shown("server_us", 1)),
)
BY_SUBJECT = {
    "drain": DRAIN,
    "enqueue": ENQUEUE,
    "latency": LATENCY,
    "idle": IDLE,
}
BY_CASE = {
    "claim": CLAIM,
    "retention": RETENTION,
    "memory": MEMORY,
    "sqlite": SQLITE,
    scale.SECTION: SCALE,
    shape.SECTION: SHAPE,
    ablation.SECTION: ABLATION,
}


def by_subject(results: Results, section: str, columns: Sequence[Column]) -> str:
    """One table per case, one row per subject."""
    tables = []
    for case in results.cases(section):
        rows = [
            [subject, *(text(results, section, case, subject) for _, text in columns)]
            for subject in results.subjects(section, case)
        ]
        tables.append(table([f"{section}, {case}", *(title for title, _ in columns)], rows))
    return "\n\n".join(tables)


def by_case(results: Results, section: str, columns: Sequence[Column]) -> str:
    """One table, one row per case: sections with a single subject."""
    rows = [
        [case, *(text(results, section, case, subject) for _, text in columns)]
        for case in results.cases(section)
        for subject in results.subjects(section, case)
    ]
    return table([section, *(title for title, _ in columns)], rows)


def bars(results: Results, sections: Sequence[str]) -> str:
    def row(bar: Bar) -> list[str]:
        sign = "≥" if bar.at_least else "≤"
        measured = whole(bar.measured(results), bar.digits)
        return [bar.what, measured, f"{sign} {bar.limit:,g}", bar.verdict(results)]

    rows = [row(bar) for bar in BARS if bar.section in sections]
    text = table([f"bars of {OURS}", "measured", "bar", "verdict"], rows)
    noisy = [name for name in sections if _noisy(results, name)]
    if noisy:
        text += f"\n\n  Others used the machine during {', '.join(noisy)}: measure again."
    return text


def _noisy(results: Results, section: str) -> bool:
    foreign = results.foreign(section)
    return foreign is not None and foreign.middle > QUIET


def noise(results: Results) -> str:
    sections = list(dict.fromkeys(sample.section for sample in results.samples))
    rows = [[name, whole(results.foreign(name), 2)] for name in sections]
    return table(["cores used by others meanwhile", "median (min-max)"], rows)


def failures(results: Results, missing: Mapping[str, str]) -> str:
    lines = [f"  {name} is left out: {reason}" for name, reason in missing.items()]
    counted = Counter((f.section, f.subject, f.reason) for f in results.failures)
    lines += [
        f"  {section}: {subject} failed {count} times: {reason}"
        for (section, subject, reason), count in counted.items()
    ]
    twice = {s.subject for s in results.samples if s.values.get("twice", 0) > 0}
    lines += [f"  {name} ran some jobs more than once" for name in sorted(twice)]
    return "\n".join(["what did not work", *lines]) if lines else ""


def machine(postgres: str, versions: Mapping[str, str]) -> str:
    memory_gb = psutil.virtual_memory().total / 1e9
    lines = [
        f"  {os.cpu_count()} cores ({processor()}), {memory_gb:.0f} GB, {platform.system()}",
        f"  PostgreSQL {postgres}, Python {platform.python_version()}",
    ]
    known = {subject.name: subject for subject in (DETENT, PROTOTYPE, RAW, *PEERS.values())}
    lines += [
        f"  {name}{f' {version}' if version else ''}: {known[name].settings}"
        for name, version in versions.items()
    ]
    return "\n".join(["machine", *lines])


def processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def render(
    results: Results,
    options: Options,
    postgres: str,
    versions: Mapping[str, str],
    missing: Mapping[str, str],
) -> str:
    measured = list(dict.fromkeys(sample.section for sample in results.samples))
    parts = [by_subject(results, name, BY_SUBJECT[name]) for name in measured if name in BY_SUBJECT]
    parts += [by_case(results, name, BY_CASE[name]) for name in measured if name in BY_CASE]
    if options.ablation is None:
        parts.append(bars(results, measured))
    parts += [noise(results), failures(results, missing), machine(postgres, versions)]
    return "\n\n".join(part for part in parts if part)
