"""The store for PostgreSQL, on asyncpg."""

from detent.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
