"""Django without a project: its connections pointed at the database of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections

if not settings.configured:
    settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
    django.setup()


@contextmanager
def django_connection(url: str, alias: str = DEFAULT_DB_ALIAS, **more: Any) -> Iterator[Any]:
    """`django.db.connection`, or `connections[alias]`, to a database; closed at the end."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        database: dict[str, Any] = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": parts.path[1:],
        }
    else:
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
        }
    connections.settings = connections.configure_settings(
        {DEFAULT_DB_ALIAS: {}, alias: database | more}
    )
    try:
        yield connection if alias == DEFAULT_DB_ALIAS else connections[alias]
    finally:
        if connections[alias].connection is not None:
            connections[alias].close()
        del connections[alias]
