"""Keeps what providers made for as long as it lives: an app, a node, or one call."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any, Final

from detent.context import JobContext
from detent.errors import ConfigError
from detent.recipes import Recipe

# What takes longer to close is given up, so that a node can stop.
CLOSE_LIMIT: Final = 10.0

Spawn = Callable[[Coroutine[Any, Any, Any], str], Any]


class Kept:
    """A value that outlives jobs. It is opened and closed by one task of its own.

    So whoever needed it first may be canceled meanwhile, nothing of that job's context stays with
    it, and task groups inside it are left by the task that entered them.
    """

    __slots__ = ("error", "leave", "made", "recipe", "task")

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.made.add_done_callback(lambda made: made.cancelled() or made.exception())
        self.leave = asyncio.Event()
        self.error: BaseException | None = None
        self.task: asyncio.Task[None]


class Lifetime:
    """Values of one event loop that are made when first needed, once, and closed together."""

    def __init__(self, spawn: Spawn, outer: "Callable[[], Lifetime] | None" = None) -> None:
        self._spawn = spawn
        self._outer = outer
        self._kept: dict[Recipe, Kept] = {}
        self._made: list[Kept] = []
        """In the order in which they were made."""

    async def get(self, recipe: Recipe) -> Any:
        """Return the value of a recipe; wait while somebody else has it made."""
        if self._outer is not None and recipe.scope == "app":
            return await self._outer().get(recipe)
        kept = self._kept.get(recipe)
        if kept is None:
            kept = self._kept[recipe] = Kept(recipe)
            # In a context of its own: what the job that came first set is not for all.
            spawn = contextvars.Context().run
            kept.task = spawn(self._spawn, self._keep(kept), f"detent-{recipe.name}")
        return await asyncio.shield(kept.made)

    async def _keep(self, kept: Kept) -> None:
        recipe = kept.recipe
        try:
            arguments = {name: await self.get(need) for name, need in recipe.needs.items()}
            async with AsyncExitStack() as stack:
                kept.made.set_result(await recipe.open(stack, arguments))
                self._made.append(kept)
                await kept.leave.wait()
        except BaseException as error:  # noqa: BLE001  the user's provider: told to those who wait
            kept.error = error
            if not kept.made.done():
                kept.made.set_exception(_passable(error))
        finally:
            # It could not be made, or ended by itself: the next one who needs it tries again.
            if self._kept.get(recipe) is kept:
                del self._kept[recipe]

    async def close(self) -> list[tuple[str, BaseException]]:
        """Close everything, the last made first; return what could not be closed, and why."""
        making = [kept.task for kept in self._kept.values() if not kept.made.done()]
        for task in making:
            task.cancel()
        if making:
            # What was half made is tidied up, or is whole after all and closed with the others.
            await asyncio.wait(making, timeout=CLOSE_LIMIT)
        problems = []
        while self._made:
            kept = self._made.pop()
            kept.leave.set()
            await asyncio.wait([kept.task], timeout=CLOSE_LIMIT)
            if not kept.task.done():
                kept.task.cancel()
                kept.error = TimeoutError(f"it took longer than {CLOSE_LIMIT:g} s")
            if kept.error is not None:
                problems.append((kept.recipe.name, kept.error))
        self._kept.clear()
        return problems


def _passable(error: BaseException) -> BaseException:
    """Return an error that a future can carry."""
    if isinstance(error, StopIteration):
        return RuntimeError(f"it raised {error!r}")
    return error


class Kit:
    """What is made for one call, each thing once."""

    def __init__(
        self, stack: AsyncExitStack, lifetime: Lifetime, context: JobContext | None
    ) -> None:
        self._stack = stack
        self._lifetime = lifetime
        self._context = context
        self.made: dict[Recipe, Any] = {}

    async def get(self, recipe: Recipe) -> Any:
        """Return the value of a recipe, and let the stack close it if it is for this call only."""
        if recipe in self.made:
            return self.made[recipe]
        if recipe.scope == "job":
            arguments = {name: await self.get(need) for name, need in recipe.needs.items()}
            value = await recipe.open(self._stack, with_context(recipe, arguments, self._context))
        else:
            value = await self._lifetime.get(recipe)
        self.made[recipe] = value
        return value


@contextmanager
def heard_out(stack: AsyncExitStack | ExitStack) -> Iterator[None]:
    """Let what is raised inside get out of an empty stack, also when a provider swallows it.

    A session that only notes an error must not make a success of a call that has failed.
    """
    raised: list[BaseException] = []

    def insist(_kind: object, error: BaseException | None, _traceback: object) -> bool:
        if error is None and raised:
            raise raised.pop()
        raised.clear()
        return False

    # The first in is the last out: it sees what the providers have left of the error.
    stack.push(insist)
    try:
        yield
    except BaseException as error:
        raised.append(error)
        raise


def make_here(
    recipe: Recipe, made: dict[Recipe, Any], stack: ExitStack, context: JobContext | None
) -> Any:
    """Return the value of a recipe, made without an event loop: on the thread of a job."""
    if recipe not in made:
        arguments = {
            name: make_here(need, made, stack, context) for name, need in recipe.needs.items()
        }
        made[recipe] = recipe.open_here(stack, with_context(recipe, arguments, context))
    return made[recipe]


def with_context(
    recipe: Recipe, arguments: Mapping[str, Any], context: JobContext | None
) -> Mapping[str, Any]:
    """Return arguments with the context, where the provider wants it."""
    if recipe.context is None:
        return arguments
    if context is None:
        raise ConfigError(f"{recipe.name}() takes a JobContext, and there is no job here")
    return {**arguments, recipe.context: context}


def bound_to_loop(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Return those that only an event loop can make, or from which such are made.

    The others, blocking ones for one job, can be made on the thread where the job runs: what
    they give may be bound to it, like a connection to SQLite.
    """
    found: dict[Recipe, None] = {}
    for recipe in recipes:
        for each in recipe.everything():
            if each.is_async or each.scope != "job":
                found.update(dict.fromkeys(each.everything()))
    return list(found)
