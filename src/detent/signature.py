"""A function's signature as a typed record: arguments are checked when a job is enqueued, and
again when it runs.
"""

import hashlib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from detent.depends import Dependency, dependencies_of, hints_of
from detent.errors import ConfigError, InvalidArguments
from detent.spi.codec import Codec

_Kind: Final = inspect.Parameter
_POSITIONAL: Final = (_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD)
_VARIADIC: Final = (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)


class Signature:
    """What a task takes. The parameter of type `context_type`, if any, is left to the engine.

    So are those with `Depends(...)`, and the `self` of a method.
    """

    def __init__(self, function: Callable[..., Any], context_type: type) -> None:
        self._name = getattr(function, "__qualname__", repr(function))
        signature = inspect.signature(function)
        hints = hints_of(function)
        contexts = [name for name in signature.parameters if hints.get(name) is context_type]
        if len(contexts) > 1:
            raise ConfigError(f"{self._name}() takes more than one {context_type.__name__}")
        self.context_parameter: str | None = contexts[0] if contexts else None
        others = {name: p for name, p in signature.parameters.items() if name not in contexts}
        self.injected = dependencies_of(others, hints, self._name)
        self.has_defaults_to_make = bool(self.injected) or any(
            isinstance(signature.parameters[name].default, Dependency) for name in contexts
        )
        """Whether a call by hand may lack what only a marker stands for."""
        self.is_method = is_method(function)
        self._parameters = [
            p for p in signature.parameters.values() if p.name not in self.injected
        ][self.is_method :]
        own = [p for p in self._parameters if hints.get(p.name) is not context_type]
        self._bare = signature.replace(parameters=own)
        self._record = _record_type(self._name, own, hints)
        self.result_type = _result_type(hints)
        # Calls by keyword alone are simpler and faster, where the signature allows them.
        kinds = {p.kind for p in self._parameters}
        self._by_keyword = kinds <= {_Kind.POSITIONAL_OR_KEYWORD, _Kind.KEYWORD_ONLY}
        if not self._by_keyword:
            _check_by_keyword(self._name, [signature.parameters[name] for name in self.injected])
        self._names = tuple(p.name for p in own)
        self._positional = tuple(p.name for p in own if p.kind is _Kind.POSITIONAL_OR_KEYWORD)
        self._may_miss = any(p.default is not _Kind.empty for p in own)
        self._required = tuple(p.name for p in own if p.default is _Kind.empty)

    def encode(self, codec: Codec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Return a call as bytes, or raise `InvalidArguments` with the path to what is wrong."""
        arguments = self._bind_simply(args, kwargs)
        if arguments is None:
            try:
                arguments = self._bare.bind(*args, **kwargs).arguments
            except TypeError as error:
                problem = f"{self._name}(): {error}"
                if problem.endswith("missing a required argument: 'ctx'"):
                    problem += "; for the context write ctx: JobContext"
                raise InvalidArguments(problem, path="arguments") from error
        try:
            data = codec.encode(arguments)
            codec.decode(data, self._record)
        except InvalidArguments as error:
            raise InvalidArguments(f"{self._name}(): {error}", path=error.path) from error
        return data

    @property
    def names(self) -> tuple[str, ...]:
        """What callers may pass, by name."""
        return tuple(self._bare.parameters)

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a call that was found good, by name, defaults included."""
        bound = self._bare.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def digest(self, codec: Codec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Return the same bytes for calls that mean the same, and others for all others."""
        try:
            canonical = codec.canonical(dict(self.arguments(args, kwargs)))
        except InvalidArguments:
            # A default need not have a JSON form, as long as no caller passes it.
            canonical = codec.canonical(dict(self._bare.bind(*args, **kwargs).arguments))
        return hashlib.sha256(canonical).digest()

    def stored_arguments(self, codec: Codec, data: bytes) -> Mapping[str, Any]:
        """Return the arguments of a stored call, by name, defaults included."""
        record = codec.decode(data, self._record)
        return {
            name: parameter.default if (value := getattr(record, name)) is msgspec.UNSET else value
            for name, parameter in self._bare.parameters.items()
        }

    def _bind_simply(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """Bind an ordinary call, at a fourth of the cost; None when anything is unusual."""
        if not self._by_keyword or len(args) > len(self._positional):
            return None
        arguments = dict(zip(self._positional, args, strict=False))
        if kwargs:
            if not arguments.keys().isdisjoint(kwargs) or not set(self._names).issuperset(kwargs):
                return None
            arguments.update(kwargs)
        if len(arguments) < len(self._names) and not arguments.keys() >= set(self._required):
            return None
        return arguments

    def decode(self, codec: Codec, data: bytes, context: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a stored call, with the context where the function wants it."""
        record = codec.decode(data, self._record)
        if not self._by_keyword:
            return self._decode_in_order(record, context)
        keywords = msgspec.structs.asdict(record)
        if self._may_miss:
            keywords = {k: value for k, value in keywords.items() if value is not msgspec.UNSET}
        if self.context_parameter is not None:
            keywords[self.context_parameter] = context
        return [], keywords

    def _decode_in_order(self, record: Any, context: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments for a signature that has `*args`, `**kwargs` or `/`."""
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter in self._parameters:
            is_context = parameter.name == self.context_parameter
            value = context if is_context else getattr(record, parameter.name)
            if value is msgspec.UNSET:
                if parameter.kind in _POSITIONAL:
                    # What comes after it must not slip into its place.
                    positional.append(parameter.default)
                continue
            match parameter.kind:
                case _Kind.VAR_POSITIONAL:
                    positional.extend(value)
                case _Kind.VAR_KEYWORD:
                    keywords.update(value)
                case _Kind.KEYWORD_ONLY:
                    keywords[parameter.name] = value
                case _:
                    positional.append(value)
        return positional, keywords


def check_function(function: Any) -> None:
    """Refuse what cannot become a task."""
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise ConfigError(f"@app.task: {function!r} is not a function")
    if _yields(function):
        name = function.__qualname__
        raise ConfigError(f"{name}(): yields, so that calling it runs nothing; let it return")


def _yields(function: Any) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def accepts(function: Any, *names: str) -> bool:
    """Tell whether something can be called with so many values, as far as it lets one know.

    What yields cannot: calling it would run nothing.
    """
    if not callable(function) or _yields(function):
        return False
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        return False
    except ValueError:  # something of C
        return True
    return True


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function was written inside a class, to be called on its instances."""
    outside, _, _ = getattr(function, "__qualname__", "").rpartition(".")
    if not outside or outside.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters), None)
    if first == "cls":
        raise ConfigError(
            f"{function.__qualname__}(): a class method cannot be a task; let it take self, "
            f"or write @staticmethod above @app.task"
        )
    return first == "self"


def _check_by_keyword(name: str, injected: Sequence[inspect.Parameter]) -> None:
    """Refuse what others' arguments would slip into the place of."""
    for parameter in injected:
        if parameter.kind is not _Kind.KEYWORD_ONLY:
            raise ConfigError(
                f"{name}() has `/`, `*args` or `**kwargs`: put a `*` before {parameter.name}, "
                f"which is injected"
            )


def _result_type(hints: Mapping[str, Any]) -> Any:
    """Return what results are read as: what was promised, or anything where JSON cannot tell."""
    type_ = hints.get("return", Any)
    # None is no promise: `ctx.set_result` may give a job a result that its function does not.
    return type_ if type_ is not type(None) and _is_readable(type_) else Any


def _is_readable(type_: Any) -> bool:
    """Whether JSON can be read as this type: not as an `Iterable`, nor as any class at all."""
    try:
        kind = msgspec.inspect.type_info(type_)
    except (TypeError, ValueError):
        return False
    if isinstance(kind, msgspec.inspect.CustomType):
        return kind.cls is object or hasattr(kind.cls, "model_validate")
    if isinstance(kind, msgspec.inspect.LiteralType):
        return True
    if typing.get_origin(type_) is typing.Annotated:
        return _is_readable(type_.__origin__)
    return all(_is_readable(part) for part in typing.get_args(type_) if part is not ...)


def _check_constraints(name: str, parameter: str, type_: Any) -> None:
    """Refuse limits on values that only pydantic would check, and only in a model of its own."""
    for note in getattr(type_, "__metadata__", ()):
        package = type(note).__module__.partition(".")[0]
        limits = getattr(note, "metadata", ()) if package == "pydantic" else (note,)
        if package in ("annotated_types", "pydantic") and limits:
            raise ConfigError(
                f"{name}(): {parameter} is limited by {note!r}, which would not be checked; "
                "use msgspec.Meta(ge=1) in its place, or a pydantic model"
            )
    for part in typing.get_args(type_):
        _check_constraints(name, parameter, part)


def _record_type(
    name: str, parameters: list[inspect.Parameter], hints: Mapping[str, Any]
) -> type[msgspec.Struct]:
    """Return a struct with one field per parameter; those with a default may be missing."""
    union: Any = typing.Union
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        type_ = hints.get(parameter.name, Any)
        _check_constraints(name, parameter.name, type_)
        if parameter.kind is _Kind.VAR_POSITIONAL:
            type_ = list.__class_getitem__(type_)
        elif parameter.kind is _Kind.VAR_KEYWORD:
            type_ = dict.__class_getitem__((str, type_))
        if parameter.default is not _Kind.empty or parameter.kind in _VARIADIC:
            # Not with `|`, which is not defined between all types.
            may_miss = union[type_, msgspec.UnsetType]
            fields.append((parameter.name, may_miss, msgspec.UNSET))
        else:
            fields.append((parameter.name, type_))
    try:
        record = msgspec.defstruct("Arguments", fields, forbid_unknown_fields=True, kw_only=True)
        msgspec.json.Decoder(record, dec_hook=lambda _type, value: value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the annotations of {name} cannot be used for JSON: {error}") from error
    return record
