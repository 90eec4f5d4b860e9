"""Gives tasks what they depend on: an app's providers, what overrides them, and what they made."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any, Final, Protocol

from detent.context import JobContext, running_port
from detent.depends import Scope
from detent.errors import ConfigError
from detent.lazy import PerLoop
from detent.lifetimes import Kit, Lifetime, Spawn, bound_to_loop, heard_out, make_here
from detent.recipes import Recipe, Recipes
from detent.signature import Signature
from detent.spi.resolver import Resolver

SELF: Final = "self"


class Dependent(Protocol):
    """A task, as far as its dependencies go."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    owner: type | None
    is_async: bool
    is_batch: bool


class Plan:
    """What is made for every call of one task."""

    def __init__(self, recipes: Mapping[str, Recipe]) -> None:
        self.recipes = recipes
        """By parameter; the object of a method is its `self`."""
        self._on_loop = bound_to_loop(recipes.values())

    async def furnish(
        self, stack: AsyncExitStack, lifetime: Lifetime, context: JobContext | None
    ) -> dict[str, Any]:
        """Return all that the parameters are given; the stack closes it after the call."""
        kit = Kit(stack, lifetime, context)
        return {name: await kit.get(recipe) for name, recipe in self.recipes.items()}

    async def furnish_partly(
        self, stack: AsyncExitStack, lifetime: Lifetime, context: JobContext | None
    ) -> dict[Recipe, Any]:
        """Return only what needs an event loop, by its recipe; `calling` makes the rest."""
        kit = Kit(stack, lifetime, context)
        for recipe in self._on_loop:
            await kit.get(recipe)
        return kit.made

    def calling(
        self,
        function: Callable[..., Any],
        made: Mapping[Recipe, Any],
        context: JobContext | None,
    ) -> Callable[..., Any]:
        """Return a function that makes the rest on the thread where it is called, and closes it."""

        @functools.wraps(function)
        def furnished(*args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack, heard_out(stack):
                known = dict(made)
                given = {
                    name: make_here(recipe, known, stack, context)
                    for name, recipe in self.recipes.items()
                }
                return with_given(function, given)(*args, **kwargs)

        return furnished


def with_given(function: Callable[..., Any], given: dict[str, Any]) -> Callable[..., Any]:
    """Return a function that needs what is left of its arguments."""
    if SELF not in given:
        return functools.partial(function, **given)
    return functools.partial(
        function, given[SELF], **{name: value for name, value in given.items() if name != SELF}
    )


class Providers:
    """Who makes what for the tasks of one app."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._recipes = Recipes()
        self._plans: dict[str, Plan] = {}
        self._lifetimes = PerLoop(lambda: Lifetime(spawn))
        self._resolver: tuple[Resolver, Scope] | None = None

    # Declaring

    def check(self, task: Dependent) -> None:
        """Refuse a task whose dependencies cannot be made; for a method all but its object."""
        with self._recipes.unless_refused():
            self._parameters(task)

    def check_all(self, tasks: Iterable[Dependent]) -> None:
        """Refuse what no node could run."""
        for task in tasks:
            if task.signature.injected or task.signature.is_method:
                self.plan(task)

    def use(self, resolver: Resolver, scope: Scope) -> None:
        """Let objects with tasks be made by a container."""
        self._resolver = (resolver, scope)
        self._plans.clear()

    @contextmanager
    def overridden(
        self, provider: Callable[..., Any], replacement: Callable[..., Any]
    ) -> Iterator[None]:
        """Use another provider meanwhile, wherever this one is asked for."""
        overrides = self._recipes.overrides
        before = overrides.get(provider)
        overrides[provider] = replacement
        self._plans.clear()
        try:
            yield
        finally:
            if before is None:
                del overrides[provider]
            else:
                overrides[provider] = before
            self._plans.clear()

    # Planning

    def plan(self, task: Dependent) -> Plan:
        """Return what is to be made for the calls of a task."""
        plan = self._plans.get(task.name)
        if plan is None:
            recipes = self._parameters(task)
            if task.signature.is_method:
                recipes = {SELF: self._object(task), **recipes}
                self._check_context(task, recipes[SELF])
            plan = self._plans[task.name] = Plan(recipes)
        return plan

    def _parameters(self, task: Dependent) -> dict[str, Recipe]:
        recipes = {
            name: self._recipes.of(asked, (task.name,))
            for name, asked in task.signature.injected.items()
        }
        for recipe in recipes.values():
            self._check_context(task, recipe)
        return recipes

    def _check_context(self, task: Dependent, recipe: Recipe) -> None:
        """Refuse what wants the context of a job where a call is for many."""
        for each in recipe.everything():
            if each.context is not None and task.is_batch:
                raise ConfigError(
                    f"{each.name}() takes a JobContext, but a call of {task.name} is for many jobs"
                )

    def _object(self, task: Dependent) -> Recipe:
        """Return how the object of a method is made."""
        if task.owner is None:
            raise ConfigError(f"task {task.name} takes self, but is no attribute of a class")
        if self._resolver is None:
            return self._recipes.of_class(task.owner, (task.name,))
        resolver, scope = self._resolver
        return self._recipes.resolved(task.owner, resolver.resolve, scope)

    # Lifetimes

    def app_lifetime(self) -> Lifetime:
        """Return what lives as long as the app, on this event loop."""
        return self._lifetimes.here()

    def new_lifetime(self) -> Lifetime:
        """Return a place for what lives as long as a node, or less."""
        return Lifetime(self._spawn, self.app_lifetime)

    async def close(self) -> list[tuple[str, BaseException]]:
        """Close what lives as long as the app, on this event loop; return what went wrong."""
        lifetime = self._lifetimes.take()
        return [] if lifetime is None else await lifetime.close()

    # Calls by hand

    def call(self, task: Dependent, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a task's function here and now, with what was not given by hand."""
        given = inspect.signature(task.function).bind_partial(*args, **kwargs).arguments
        missing = {
            name: recipe for name, recipe in self._parameters(task).items() if name not in given
        }
        port = running_port()
        context = None if port is None else JobContext(port)
        wanted = task.signature.context_parameter
        if wanted is not None and wanted not in given:
            if context is None:
                raise ConfigError(f"{task.name}() was called without a job: pass {wanted}=")
            kwargs = {**kwargs, wanted: context}
        if not missing:
            return task.function(*args, **kwargs)
        if task.is_async:
            return self._called(task, Plan(missing), args, kwargs, context)
        for name, recipe in missing.items():
            if slow := [each for each in recipe.everything() if each.is_async]:
                raise ConfigError(
                    f"{task.name}() was called by hand without {name}, which {slow[0].name} can "
                    f"only make on an event loop: pass {name}="
                )
        return Plan(missing).calling(task.function, {}, context)(*args, **kwargs)

    async def _called(
        self,
        task: Dependent,
        plan: Plan,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        context: JobContext | None,
    ) -> Any:
        lifetime = self.new_lifetime()
        try:
            async with AsyncExitStack() as stack:
                with heard_out(stack):
                    given = await plan.furnish(stack, lifetime, context)
                    return await task.function(*args, **kwargs, **given)
        finally:
            # There is no node whose end could close this.
            await lifetime.close()
