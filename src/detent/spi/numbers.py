"""What a store promises about its numbers, when a part of its history is lost."""

from typing import Protocol


class NumberStore(Protocol):
    """Gives fences, lock fences and terms, none of them twice.

    A store finds out by itself what it can: that another server leads now, or that it was restored
    from a backup. What it cannot know, it is told.
    """

    async def raise_numbers(self, above: int) -> None:
        """Let every number that is given from now on be greater than `above`.

        A caller has seen that number, and the store has given a smaller one since.
        """
