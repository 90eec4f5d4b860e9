"""Finds the store that a URL names, and looks after its schema."""

from detent.config import Config, redact
from detent.errors import ConfigError
from detent.spi.notifier import Notifier
from detent.spi.store import Store
from detent.stores.memory import MemoryStore
from detent.stores.memory.notifier import MemoryNotifier


def open_store(config: Config) -> tuple[Store, Notifier | None]:
    """Return the store and the notifier that a URL names."""
    url = config.store.url
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme in ("postgresql", "postgres"):
        return _postgres(config)
    if scheme == "memory":
        return MemoryStore(), MemoryNotifier()
    raise ConfigError(
        f"[store] url = {redact(url)!r}: {scheme!r} is no known store; "
        "known are postgresql://user@host/database (pip install 'detent[postgres]') and memory://"
    )


def _postgres(config: Config) -> tuple[Store, Notifier]:
    try:
        from detent.stores.postgres import PostgresStore  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(
            f"[store] url = {redact(config.store.url)!r}: needs asyncpg; "
            "run: pip install 'detent[postgres]'"
        ) from error
    settings = config.store
    store = PostgresStore(
        settings.url,
        schema=settings.schema,
        pool_size=settings.pool_size,
        pooler=settings.pooler,
        timeout=settings.timeout,
        auto_migrate=settings.auto_migrate,
    )
    return store, store.notifier


async def migrate_store(config: Config) -> list[str]:
    """Bring the store to the schema of this version; return the steps taken."""
    from detent.stores.postgres.migrations import migrate  # noqa: PLC0415  an extra

    _only_postgres(config)
    return await migrate(config.store.url, config.store.schema)


async def pending_migrations(config: Config) -> list[str]:
    """Return the steps that `migrate_store` would take."""
    from detent.stores.postgres.migrations import pending  # noqa: PLC0415  an extra

    _only_postgres(config)
    return await pending(config.store.url, config.store.schema)


def migration_script(config: Config) -> str:
    """Return the SQL of all steps, for other tools."""
    from detent.stores.postgres.migrations import migration_sql  # noqa: PLC0415  an extra

    return migration_sql(config.store.schema)


async def drop_store(config: Config) -> None:
    """Remove Detent's schema and everything in it: for throw-away schemas."""
    from detent.stores.postgres.migrations import drop  # noqa: PLC0415  an extra

    _only_postgres(config)
    await drop(config.store.url, config.store.schema)


def _only_postgres(config: Config) -> None:
    if not config.store.url.startswith(("postgresql:", "postgres:", "postgresql+")):
        raise ConfigError(
            f"[store] url = {redact(config.store.url)!r}: only PostgreSQL has migrations to run"
        )
