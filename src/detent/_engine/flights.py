"""Claims that are on their way: room is promised to each, so that none waits for another."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from detent._engine.slots import Slots


class Flights:
    """The claims of one node of which it does not know yet what they bring."""

    def __init__(self, queues: Mapping[str, Slots], on_room: Callable[[str], None]) -> None:
        self._queues = queues
        self._on_room = on_room
        self._open: dict[asyncio.Event, None] = {}
        self._missed: dict[str, None] = {}
        """Queues that had no room for one claim because it was promised to another."""

    @contextmanager
    def claim(self, rooms: Mapping[str, int]) -> Iterator[None]:
        """Keep so much room of each queue for a claim, until it has brought what it brings."""
        landed = asyncio.Event()
        self._open[landed] = None
        for queue, room in rooms.items():
            self._queues[queue].promised += room
        try:
            yield
        finally:
            for queue, room in rooms.items():
                self._queues[queue].promised -= room
            del self._open[landed]
            landed.set()
            self._tell(rooms)

    def note(self, rooms: Mapping[str, int]) -> None:
        """Remember where a claim finds no room because of another: it is told when there is."""
        if self._open:
            for queue, room in rooms.items():
                if room == 0 and self._queues[queue].promised:
                    self._missed[queue] = None

    async def all_landed(self) -> None:
        """Wait until all claims that are on their way now have brought what they bring."""
        for landed in list(self._open):
            await landed.wait()

    def _tell(self, rooms: Mapping[str, int]) -> None:
        for queue in [queue for queue in rooms if queue in self._missed]:
            del self._missed[queue]
            self._on_room(queue)
