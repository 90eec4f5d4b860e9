"""Who makes the objects whose methods are tasks: a container of your own."""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Resolver(Protocol):
    """Makes instances of classes that have tasks as methods.

    It is asked on the event loop, once for each class and node (or for each job, if it was given
    with `scope="job"`). How long the parts of an instance live is its own affair.
    """

    def resolve(self, cls: type[T], /) -> T | Awaitable[T]:
        """Return an instance, or something to await that gives one; an error is the job's."""
