"""Finds the store that a URL names, and looks after its schema."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import ModuleType
from typing import Final

from detent.config import Config, redact
from detent.errors import ConfigError
from detent.model.announce import TRIGGERS
from detent.notifiers.none import NoNotifier
from detent.spi.notifier import Notifier
from detent.spi.store import Store
from detent.stores.memory import MemoryStore
from detent.stores.memory.notifier import MemoryNotifier
from detent.stores.sqlite import SqliteStore
from detent.stores.sqlite import migrations as sqlite
from detent.stores.sqlite.address import path_of

POSTGRES: Final = ("postgresql", "postgres")
MIGRATION_WAIT: Final = timedelta(minutes=10)


def open_store(config: Config, notifier: Notifier | None = None) -> tuple[Store, Notifier | None]:
    """Return the store that a URL names, and the given notifier, that of `[wakeup]` or its own."""
    notifier = notifier or _carrier(config)
    if _scheme(config) == "memory":
        notifier = notifier or MemoryNotifier()
        return MemoryStore(notifier=notifier), notifier
    if _scheme(config) == "sqlite":
        return _sqlite(config, notifier)
    _only_known(config)
    return _postgres(config, notifier)


def _carrier(config: Config) -> Notifier | None:
    """Return what carries wake-ups in the store's stead; None leaves it to the store."""
    url = config.wakeup.url
    if url is None:
        return None
    if url == "none":
        return NoNotifier()
    scheme, channel = url.partition(":")[0], config.wakeup.channel or config.store.schema
    try:
        if scheme in ("redis", "rediss", "valkey", "valkeys"):
            from detent.notifiers.redis import RedisNotifier  # noqa: PLC0415  an extra

            return RedisNotifier(url, channel)
        if scheme in ("nats", "tls"):
            from detent.notifiers.nats import NatsNotifier  # noqa: PLC0415  an extra

            return NatsNotifier(url, channel)
    except ImportError as error:
        extra = "nats" if scheme in ("nats", "tls") else "redis"
        raise ConfigError(
            f"[wakeup] url = {redact(url)!r}: needs a client; run: pip install 'detent[{extra}]'"
        ) from error
    if scheme in POSTGRES and _scheme(config) in POSTGRES:
        return None  # the way round a pooler: the store's own notifier takes it
    raise ConfigError(
        f"[wakeup] url = {redact(url)!r}: {scheme!r} cannot carry wake-ups here; known are "
        'redis://host, nats://host and "none", and postgresql://host/database for a store in '
        "that database behind a pooler"
    )


def _sqlite(config: Config, notifier: Notifier | None) -> tuple[Store, Notifier]:
    store = SqliteStore(
        _path(config),
        timeout=config.store.timeout,
        notifier=notifier,
        triggers=TRIGGERS[config.wakeup.triggers],
    )
    return store, store.notifier


def _postgres(config: Config, notifier: Notifier | None) -> tuple[Store, Notifier]:
    try:
        from detent.stores.postgres import PostgresStore  # noqa: PLC0415  an extra
    except ImportError as error:
        raise _needs_asyncpg(config) from error
    settings = config.store
    store = PostgresStore(
        settings.url,
        schema=settings.schema,
        pool_size=settings.pool_size,
        pooler=settings.pooler,
        timeout=settings.timeout,
        auto_migrate=settings.auto_migrate,
        notifier=notifier,
        direct_url=config.wakeup.url,
        triggers=TRIGGERS[config.wakeup.triggers],
    )
    return store, store.notifier


async def migrate_store(
    config: Config, *, wait: timedelta = MIGRATION_WAIT, told: Callable[[str], None] | None = None
) -> list[str]:
    """Bring the store to the schema of this version; return the steps taken.

    A step that has to wait for the transactions of others tries for as long as `wait`, and `told`
    hears for which.
    """
    if _scheme(config) == "sqlite":
        return await asyncio.to_thread(sqlite.migrate, _path(config))
    postgres = _postgres_migrations(config)

    def tell(label: str, blockers: Sequence[object]) -> None:
        if told is not None:
            who = ", ".join(map(str, blockers)) or "another transaction"
            told(f"{label} waits for {who}")

    taken: list[str] = await postgres.migrate(
        config.store.url, config.store.schema, patience=wait.total_seconds(), told=tell
    )
    return taken


async def pending_migrations(config: Config) -> list[str]:
    """Return the steps that `migrate_store` would take."""
    if _scheme(config) == "sqlite":
        return await asyncio.to_thread(sqlite.pending, _path(config))
    postgres = _postgres_migrations(config)
    untaken: list[str] = await postgres.pending(config.store.url, config.store.schema)
    return untaken


def migration_script(config: Config) -> str:
    """Return the SQL of all steps, for other tools."""
    if _scheme(config) == "sqlite":
        _path(config)
        return sqlite.migration_sql()
    script: str = _postgres_migrations(config).migration_sql(config.store.schema)
    return script


async def drop_store(config: Config) -> None:
    """Remove Detent's tables and everything in them: for throw-away schemas."""
    if _scheme(config) == "sqlite":
        await asyncio.to_thread(sqlite.drop, _path(config))
        return
    await _postgres_migrations(config).drop(config.store.url, config.store.schema)


def _postgres_migrations(config: Config) -> ModuleType:
    _only_known(config)
    if _scheme(config) == "memory":
        raise ConfigError("[store] url = 'memory://': has no migrations to run")
    try:
        from detent.stores.postgres import migrations  # noqa: PLC0415  an extra
    except ImportError as error:
        raise _needs_asyncpg(config) from error
    return migrations


def _scheme(config: Config) -> str:
    return config.store.url.partition(":")[0].partition("+")[0]


def _path(config: Config) -> str:
    return path_of(config.store.url, config.store.schema)


def _only_known(config: Config) -> None:
    if _scheme(config) not in (*POSTGRES, "memory"):
        raise ConfigError(
            f"[store] url = {redact(config.store.url)!r}: {_scheme(config)!r} is no known store; "
            "known are sqlite:///file, postgresql://user@host/database "
            "(pip install 'detent[postgres]') and memory://"
        )


def _needs_asyncpg(config: Config) -> ConfigError:
    return ConfigError(
        f"[store] url = {redact(config.store.url)!r}: needs asyncpg; "
        "run: pip install 'detent[postgres]'"
    )
