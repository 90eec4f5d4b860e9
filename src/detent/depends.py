"""How a parameter says that it is not the caller's to give: `smtp: Smtp = Depends(get_smtp)`.

Type checkers see a default, of the type that the provider gives; so calls without it are right,
and a provider of something else is refused where it is named.
"""

import inspect
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from detent.errors import ConfigError

if TYPE_CHECKING:
    from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager

T = TypeVar("T")
Scope = Literal["app", "node", "job"]
SCOPES: Final = ("app", "node", "job")
"""How long a value lives, the longest first."""
_KEYWORD: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Dependency:
    """What `Depends(...)` leaves in a signature."""

    provider: Callable[..., Any] | None
    scope: Scope


@overload
def Depends(
    provider: "Callable[..., _AsyncGeneratorContextManager[T]]", *, scope: Scope = ...
) -> T: ...
@overload
def Depends(provider: "Callable[..., _GeneratorContextManager[T]]", *, scope: Scope = ...) -> T: ...
@overload
def Depends(provider: Callable[..., AsyncIterator[T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(provider: Callable[..., Iterator[T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(provider: Callable[..., Coroutine[Any, Any, T]], *, scope: Scope = ...) -> T: ...
@overload
def Depends(provider: Callable[..., T], *, scope: Scope = ...) -> T: ...
@overload
def Depends(*, scope: Scope = ...) -> Any: ...
def Depends(  # noqa: N802  it stands for a value, and reads like a type where it is used
    provider: Callable[..., Any] | None = None, *, scope: Scope = "job"
) -> Any:
    """Say that a parameter is given what `provider` makes, and how long that lives.

    A provider is a function, an async one, one that yields once and tidies up after it, or a
    class. `scope` is `"job"` (made for each attempt), `"node"` or `"app"` (made once, when first
    needed). Without a provider the annotation says it: `Annotated[Smtp, Depends(get_smtp)]`, or
    the class itself.
    """
    if provider is not None and not (callable(provider) and isinstance(provider, Hashable)):
        raise ConfigError(f"Depends({provider!r}): must be given a function or a class")
    if scope not in SCOPES:
        raise ConfigError(f"Depends(scope={scope!r}): must be {', '.join(SCOPES)}")
    return Dependency(provider, scope)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, evaluated."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        name = getattr(function, "__qualname__", function)
        raise ConfigError(f"cannot read the annotations of {name}: {error}") from error


def dependencies_of(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], name: str
) -> dict[str, Dependency]:
    """Return those parameters of `name` that somebody else gives, with what they ask for."""
    found = {}
    for parameter in parameters.values():
        dependency = _dependency(parameter, hints.get(parameter.name), name)
        if dependency is not None:
            if parameter.kind not in _KEYWORD:
                raise ConfigError(
                    f"{name}(): {parameter.name} is injected by name and cannot be positional only"
                )
            found[parameter.name] = dependency
    return found


def _dependency(parameter: inspect.Parameter, hint: Any, name: str) -> Dependency | None:
    said = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Dependency)]
    default = parameter.default
    if isinstance(default, Dependency):
        if default.provider is not None:
            said.append(default)
        elif not said:
            if not isinstance(hint, type):
                raise ConfigError(
                    f"{name}(): {parameter.name} = Depends() needs a provider, or a class as its "
                    f"annotation"
                )
            return Dependency(hint, default.scope)
    if len(said) > 1:
        raise ConfigError(f"{name}(): {parameter.name} has more than one Depends(...)")
    if said and said[0].provider is None:
        raise ConfigError(
            f"{name}(): {parameter.name}: Depends() in an annotation needs a provider"
        )
    return said[0] if said else None
