"""If these fail, the example of a notifier shows how not to write one."""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from detent.spi.notifier import Hint, Notifier
from detent.testing.conformance import NotifierConformance
from detent.testing.conformance.notifier import listening
from tests.examples.programs import EXAMPLES


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("custom", EXAMPLES / "custom_notifier.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, since those of sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="d-"))
    yield folder
    shutil.rmtree(folder)


class TestExample(NotifierConformance):
    @pytest.fixture
    async def notifier(self, example: ModuleType, folder: Path) -> AsyncIterator[Notifier]:
        notifier: Notifier = example.DatagramNotifier(folder)
        yield notifier
        await notifier.close()

    @pytest.fixture
    async def peer(self, example: ModuleType, folder: Path) -> AsyncIterator[Notifier]:
        notifier: Notifier = example.DatagramNotifier(folder)
        yield notifier
        await notifier.close()

    @pytest.fixture
    async def stranger(self, example: ModuleType, folder: Path) -> AsyncIterator[Notifier]:
        notifier: Notifier = example.DatagramNotifier(folder / "other")
        yield notifier
        await notifier.close()

    async def test_the_socket_of_a_killed_process_is_swept_up(
        self, notifier: Notifier, peer: Notifier, folder: Path
    ) -> None:
        left = folder / "left.sock"
        left.touch()
        async with listening(notifier) as ears:
            peer.publish([Hint("mail")])
            await ears.until(Hint("mail"))
        await peer.flush()
        assert os.listdir(folder) == []  # noqa: PTH208  nothing waits for it here
