"""How what a task depends on is made: providers and what they need, as a graph without circles.

Everything that can be wrong with it is told when it is made, before any job runs.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any, Final

from detent.context import JobContext
from detent.depends import SCOPES, Dependency, Scope, dependencies_of, hints_of
from detent.errors import ConfigError

_EMPTY: Final = inspect.Parameter.empty
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_Make = Callable[..., Any]


class Recipe:
    """How one value is made, from what, and how long it lives."""

    __slots__ = ("_make", "_managed", "context", "is_async", "name", "needs", "provider", "scope")

    def __init__(
        self,
        provider: _Make,
        scope: Scope,
        needs: Mapping[str, "Recipe"],
        context: str | None = None,
    ) -> None:
        self.provider = provider
        self.name = _name(provider)
        self.scope = scope
        self.needs = needs
        self.context = context
        """The parameter that takes a `JobContext`, if any."""
        self._make, self._managed, self.is_async = _kind(provider)

    async def open(self, stack: AsyncExitStack, arguments: Mapping[str, Any]) -> Any:
        """Make the value; the stack will close it."""
        made = self._make(**arguments)
        if self._managed:
            if self.is_async:
                return await stack.enter_async_context(made)
            return stack.enter_context(made)
        # Also of a `lambda` around an async function, as the type of `Depends` promises.
        return await made if self.is_async or inspect.iscoroutine(made) else made

    def open_here(self, stack: ExitStack, arguments: Mapping[str, Any]) -> Any:
        """Make the value of a provider that is not async."""
        made = self._make(**arguments)
        if inspect.iscoroutine(made):
            made.close()
            raise TypeError(f"{self.name}() gave a coroutine to a thread: write it as async def")
        return stack.enter_context(made) if self._managed else made

    def everything(self) -> Iterator["Recipe"]:
        """Yield what it needs, the first to be made first, and itself; some more than once."""
        for need in self.needs.values():
            yield from need.everything()
        yield self

    def __repr__(self) -> str:
        return f"<Recipe {self.name} ({self.scope})>"


def _name(provider: _Make) -> str:
    whole = _whole(provider)
    return str(getattr(whole, "__qualname__", None) or type(whole).__qualname__)


def _whole(provider: _Make) -> _Make:
    """Return the function that a partial is a part of."""
    while isinstance(provider, functools.partial):
        provider = provider.func
    return provider


def _kind(provider: _Make) -> tuple[_Make, bool, bool]:
    """Return what makes the value, whether that is entered and left, and whether it is async."""
    whole = _whole(provider)
    if isinstance(whole, type):
        if hasattr(whole, "__aenter__"):
            return provider, True, True
        return provider, hasattr(whole, "__enter__"), False
    inner = inspect.unwrap(whole)
    # What @contextmanager made of a generator is no generator any more, but knows the one it was.
    for function in (provider, getattr(provider, "__call__", None)):  # noqa: B004  read, not asked
        if inspect.isasyncgenfunction(function):
            return asynccontextmanager(function), True, True
        if inspect.isgeneratorfunction(function):
            return contextmanager(function), True, False
        if inspect.iscoroutinefunction(function):
            return provider, False, True
    if inspect.isasyncgenfunction(inner):
        return provider, True, True
    return provider, inspect.isgeneratorfunction(inner), False


class Recipes:
    """All recipes of an app; what is overridden has another one, and so has all above it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Recipe] = {}
        self._scopes: dict[Any, tuple[Scope, str]] = {}
        self.overrides: dict[Any, _Make] = {}

    @contextmanager
    def unless_refused(self) -> Iterator[None]:
        """Forget what was learned from a declaration that turns out to be wrong."""
        before = dict(self._scopes)
        try:
            yield
        except ConfigError:
            self._scopes = before
            raise

    def of(self, asked: Dependency, path: tuple[str, ...]) -> Recipe:
        """Return the recipe of what a parameter asks for; the path says who needs it."""
        assert asked.provider is not None
        self._check_scope(asked.provider, asked.scope, path[0])
        return self._recipe(asked.provider, asked.scope, path, ())

    def of_class(self, cls: type, path: tuple[str, ...]) -> Recipe:
        """Return the recipe of an object with tasks.

        There is one for a node, or one for a job if it is built from something that is.
        """
        provider = self.overrides.get(cls, cls)
        if inspect.isabstract(provider):
            raise ConfigError(
                f"task {path[0]}: {_name(provider)} is abstract, so no node can make one; "
                f"give app.resolver(...), or declare the task where the class is complete"
            )
        needs, _ = self._needs(provider, (*path, f"{_name(provider)}()"), (provider,))
        narrow = any(need.scope == "job" for need in needs.values())
        return self._recipe(cls, "job" if narrow else "node", path, ())

    def resolved(self, cls: type, resolve: Callable[[type], Any], scope: Scope) -> Recipe:
        """Return the recipe of an object that somebody else's container makes."""
        if cls in self.overrides:
            return self._recipe(cls, scope, (), ())
        known = self._known.get((cls, scope, resolve))
        if known is None:

            async def provider() -> Any:
                made = resolve(cls)
                if inspect.isawaitable(made):
                    made = await made
                if not isinstance(made, cls):
                    shown = "nothing" if made is None else repr(made)
                    raise TypeError(f"the resolver made {shown} of {cls.__qualname__}")
                return made

            provider.__qualname__ = f"{cls.__qualname__}()"
            known = self._known[cls, scope, resolve] = Recipe(provider, scope, {})
        return known

    def _check_scope(self, provider: _Make, scope: Scope, who: str) -> None:
        known, first = self._scopes.setdefault(provider, (scope, who))
        if known != scope:
            raise ConfigError(
                f"{_name(provider)} is {known}-scoped for {first} and {scope}-scoped for {who}: "
                f"a provider has one scope"
            )

    def _recipe(
        self, provider: _Make, scope: Scope, path: tuple[str, ...], above: tuple[_Make, ...]
    ) -> Recipe:
        provider = self.overrides.get(provider, provider)
        path = (*path, f"{_name(provider)} ({scope})")
        if provider in above:
            raise ConfigError(f"dependencies go in a circle: {' → '.join(path)}")
        needs, context = self._needs(provider, path, (*above, provider))
        for need in needs.values():
            if SCOPES.index(need.scope) > SCOPES.index(scope):
                chain = " → ".join((*path, f"{need.name} ({need.scope})"))
                raise ConfigError(
                    f"a value that lives longer cannot depend on one that does not: {chain}"
                )
        if context is not None and scope != "job":
            raise ConfigError(
                f"only a job-scoped provider may take a JobContext: {' → '.join(path)}"
            )
        key = (provider, scope, tuple(needs.items()))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Recipe(provider, scope, needs, context)
        return known

    def _needs(
        self, provider: _Make, path: tuple[str, ...], above: tuple[_Make, ...]
    ) -> tuple[dict[str, Recipe], str | None]:
        """Return what the parameters of a provider are given, and which one takes the context."""
        name = _name(provider)
        hints = hints_of(_annotated(provider))
        try:
            parameters = inspect.signature(provider).parameters
        except (TypeError, ValueError):
            return {}, None  # a class made in C: it is called without arguments
        contexts = [each for each in parameters if hints.get(each) is JobContext]
        others = {each: found for each, found in parameters.items() if each not in contexts}
        asked = dependencies_of(others, hints, name)
        for parameter in parameters.values():
            given = parameter.name in asked or parameter.name in contexts
            if not given and parameter.default is _EMPTY and parameter.kind not in _VARIADIC:
                raise ConfigError(
                    f"{name}(): nobody gives {parameter.name}, which has neither Depends(...) nor "
                    f"a default: {' → '.join(path)}"
                )
        needs = {}
        for parameter_name, dependency in asked.items():
            assert dependency.provider is not None
            self._check_scope(dependency.provider, dependency.scope, name)
            needs[parameter_name] = self._recipe(dependency.provider, dependency.scope, path, above)
        return needs, contexts[0] if contexts else None


def _annotated(provider: _Make) -> _Make:
    """Return what carries the annotations of a provider's parameters."""
    provider = _whole(provider)
    if isinstance(provider, type):
        name = "__init__" if _has_own(provider, "__init__") else "__new__"
        return _function(getattr(provider, name))
    if inspect.isroutine(provider):
        return _function(inspect.unwrap(provider))
    return _function(getattr(type(provider), "__call__", None))  # noqa: B004  read, not asked


def _function(found: Any) -> _Make:
    """Return it, or a function that takes nothing where it was made in C."""
    function: _Make = found if inspect.isfunction(found) else _nothing
    return function


def _has_own(cls: type, name: str) -> bool:
    return getattr(cls, name) is not getattr(object, name)


def _nothing() -> None: ...
