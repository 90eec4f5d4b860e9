"""The part of an app that is about what its tasks depend on, and what stands around its calls."""

import inspect
from collections.abc import Callable, Coroutine, Hashable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from detent.cluster import Clustered
from detent.depends import SCOPES, Scope
from detent.errors import ConfigError
from detent.events import HookFailed
from detent.model.failure import describe
from detent.providing import Providers
from detent.signature import accepts
from detent.spi.middleware import Middleware
from detent.spi.resolver import Resolver
from detent.tasks import BoundCall, check_middleware

Around = TypeVar("Around", bound=Middleware)
Enqueuing = Callable[[BoundCall[Any]], BoundCall[Any]]
Before = TypeVar("Before", bound=Enqueuing)


class Provided(Clustered):
    """What an `App` offers to give tasks what they need."""

    def __init__(self) -> None:
        super().__init__()
        self._providers = Providers(self._spawn)
        self._middleware: list[Middleware] = []
        self._enqueuing: list[Enqueuing] = []

    def override(
        self, provider: Callable[..., Any], replacement: Callable[..., Any]
    ) -> AbstractContextManager[None]:
        """Use another provider within a `with` block, wherever this one is asked for.

        `with app.override(get_smtp, FakeSmtp): ...` in tests. It holds for nodes in this process
        and for direct calls; child processes do not know of it.
        """
        for name, value in (("provider", provider), ("replacement", replacement)):
            if not (callable(value) and isinstance(value, Hashable)):
                raise ConfigError(
                    f"override({name}={value!r}): must be a function or a class; "
                    f"for a value, give `lambda: value`"
                )
        return self._providers.overridden(provider, replacement)

    def resolver(self, resolver: Resolver, *, scope: Scope = "node") -> None:
        """Let a container of yours make the objects whose methods are tasks.

        It is asked once for each class and node, or for each job with `scope="job"`.
        """
        if isinstance(resolver, type) or not accepts(getattr(resolver, "resolve", None), "cls"):
            raise ConfigError(f"resolver({resolver!r}): must have a method resolve(cls)")
        if scope not in SCOPES:
            raise ConfigError(f"resolver(scope={scope!r}): must be {', '.join(SCOPES)}")
        self._providers.use(resolver, scope)

    def middleware(self, function: Around) -> Around:
        """Run `async def m(ctx, proceed)` around every attempt; the first declared is outermost.

        `@app.task(middleware=[...])` has some of its own, inside these.
        """
        check_middleware("@app.middleware: function", function)
        self._middleware.append(function)
        return function

    def enqueue_middleware(self, function: Before) -> Before:
        """Pass every call through `def m(call)` before it is checked and stored, in this order.

        It returns the call, or another one (`call.with_options(tags=[...])`), or raises to refuse.
        """
        if not accepts(function, "call") or inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"@app.enqueue_middleware: function = {function!r}: must be def m(call), not async"
            )
        self._enqueuing.append(function)
        return function

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        return self._runtime.spawn(work, name)

    async def _release_all(self) -> None:
        for name, error in await self._providers.close():
            self.bus.emit(HookFailed(f"closing {name}", describe(error)))
        await super()._release_all()
