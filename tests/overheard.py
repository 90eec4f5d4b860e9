"""What another process says, line by line as it says it: nobody has to ask again and again."""

import threading
from collections.abc import Callable
from typing import IO, Final

import pytest

PATIENCE: Final = 30.0


class Overheard:
    """The lines of a pipe, read by a thread from its first to its last."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._said: list[str] = []
        self._silent = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._pipe as lines:
            for line in lines:
                with self._news:
                    self._said.append(line)
                    self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    def said(self) -> str:
        """Everything so far."""
        with self._news:
            return "".join(self._said)

    def wait(self, holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        """Wait until something is true of what was said; fail when it never will be."""
        with self._news:
            self._news.wait_for(lambda: holds() or self._silent, patience)
        if not holds():
            pytest.fail(f"waited up to {patience} s for {what} in:\n{self.said()}")

    def wait_for(self, text: str, patience: float = PATIENCE) -> None:
        """Wait until something is said."""
        self.wait(lambda: text in self.said(), repr(text), patience)

    def join(self, patience: float = 5.0) -> None:
        """Read the last lines; a child that lives on may keep the pipe open."""
        self._reader.join(patience)
