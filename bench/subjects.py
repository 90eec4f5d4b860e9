"""Who is measured, with which packages and settings: the best of a short tuning pass for each."""

from __future__ import annotations

from dataclasses import dataclass

from bench.server import MARK


@dataclass(frozen=True)
class Subject:
    name: str
    module: str
    settings: str
    # Packages of its own environment; none means the environment of this project.
    packages: tuple[str, ...] = ()
    distribution: str | None = None
    # A slow subject drains fewer jobs: its rate is the same and the run ends today.
    drain_jobs: int | None = None
    # True while a started job is not yet committed as finished.
    unfinished: str | None = None
    # How many jobs the store holds after an enqueue run.
    stored: str | None = None
    node: tuple[str, ...] | None = None

    @property
    def database(self) -> str:
        return f"bench_{self.name}"

    @property
    def is_ours(self) -> bool:
        return not self.packages


STORED = "SELECT count(*) FROM detent.detent_job"
DETENT = Subject(
    name="detent",
    module="bench.detent_app",
    settings="defaults, default=1000 slots",
    distribution="detent",
    unfinished=f"SELECT EXISTS (SELECT FROM detent.detent_running) "
    f"OR EXISTS (SELECT FROM detent.detent_ready) /* {MARK} */",
    stored=STORED,
    node=("-m", "detent", "node", "bench.detent_app:app", "--queues", "default=1000"),
)
PROTOTYPE = Subject(
    name="prototype",
    module="bench.prototype",
    settings="raw SQL, ready to running with floor, claims of 500, asyncpg",
    unfinished=f"SELECT EXISTS (SELECT FROM running) OR EXISTS (SELECT FROM ready) /* {MARK} */",
    stored="SELECT count(*) FROM job",
)
RAW = Subject(
    name="raw",
    module="bench.raw",
    settings="plain inserts into Detent's tables, a connection per caller up to 20, asyncpg",
    stored=STORED,
)
PEERS = {
    "pgqueuer": Subject(
        name="pgqueuer",
        module="bench.peers.pgqueuer",
        settings="batch_size=1000, one asyncpg connection",
        packages=("pgqueuer", "asyncpg", "uvloop"),
        distribution="pgqueuer",
        unfinished=f"SELECT EXISTS (SELECT FROM pgqueuer) /* {MARK} */",
        stored="SELECT count(*) FROM pgqueuer",
    ),
    "procrastinate": Subject(
        name="procrastinate",
        module="bench.peers.procrastinate",
        settings="concurrency=10, listen_notify",
        packages=("procrastinate", "psycopg[binary,pool]", "uvloop"),
        distribution="procrastinate",
        drain_jobs=4_000,
        stored="SELECT count(*) FROM procrastinate_jobs",
    ),
    "oban": Subject(
        name="oban",
        module="bench.peers.oban",
        settings="limit=1000, pool 20",
        packages=("oban", "psycopg[binary,pool]", "uvloop"),
        distribution="oban",
        drain_jobs=20_000,
        stored="SELECT count(*) FROM oban_jobs",
    ),
    "awa": Subject(
        name="awa",
        module="bench.peers.awa",
        settings="1024 workers, claim batch 512, one completion shard, pool 20",
        packages=("awa-pg", "psycopg[binary,pool]", "uvloop"),
        distribution="awa-pg",
        drain_jobs=60_000,
    ),
}
