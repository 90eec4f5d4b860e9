"""The servers of the tests of notifiers, one of each for the whole session."""

from collections.abc import Iterator

import pytest

from tests.notifiers.servers import Nats, Valkey


@pytest.fixture(scope="session")
def _valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
def valkey(_valkey: Valkey) -> Valkey:
    """A Valkey server; it runs, whatever the last test did."""
    _valkey.start()
    return _valkey


@pytest.fixture(scope="session")
def _nats() -> Iterator[Nats]:
    with Nats() as server:
        yield server


@pytest.fixture
def nats(_nats: Nats) -> Nats:
    """A NATS server; it runs, whatever the last test did."""
    _nats.start()
    return _nats
