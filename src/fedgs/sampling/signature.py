"""The signature that a function needs to become a sampler, checked when it is registered."""

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.errors import PydanticUserError

from fedgs.errors import ConfigError

__all__ = ["setting_fields"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class _Checked(BaseModel):
    """A model whose defaults are checked like any value."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True, validate_default=True)


def setting_fields(name: str, function: Callable[..., object], *, reserved: type) -> dict[str, Any]:
    """The settings of a sampler made from a function: each keyword-only parameter with a field.

    A field is a pair of type and default, as pydantic takes it; the default `...` means none.

    Args:
        name: of the sampler, for messages.
        function: what `fedgs.sampler(name)` decorates.
        reserved: the class that the settings are added to; its attributes cannot be settings,
            except `weighting`.

    Raises:
        ConfigError: it is not a function of (view, rng), or a keyword-only parameter has no type, a
            reserved name, or a default that is not of its type.

    >>> def select(view, rng, *, skip: int = 0): ...
    >>> setting_fields("first", select, reserved=object)
    {'skip': (<class 'int'>, 0)}
    """
    _check_kind(name, function)
    parameters = list(inspect.signature(function).parameters.values())
    _check_positional(name, parameters)
    options = [
        parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    untyped = [option.name for option in options if option.annotation is inspect.Parameter.empty]
    if untyped:
        raise ConfigError(
            f"the keyword-only parameters of sampler {name!r} need type annotations, such as "
            f"`{untyped[0]}: float = 1.0`; {', '.join(untyped)} "
            f"{'has' if len(untyped) == 1 else 'have'} none"
        )
    for option in options:
        is_reserved = option.name != "weighting" and hasattr(reserved, option.name)
        if option.name.startswith("_") or is_reserved:
            raise ConfigError(
                f"sampler {name!r} cannot have a setting named {option.name!r}: that name is "
                "reserved"
            )
        _check_default(name, option, module=function.__module__)
    return {option.name: _field(option) for option in options}


def _field(option: inspect.Parameter) -> tuple[object, object]:
    """Type and default of a parameter, as pydantic takes a field."""
    default = ... if option.default is inspect.Parameter.empty else option.default
    return option.annotation, default


def _check_kind(name: str, function: object) -> None:
    if isinstance(function, type):
        raise ConfigError(
            f"fedgs.sampler({name!r}) makes a sampler from a function, got the class "
            f"{function.__name__}; a subclass of fedgs.Sampler is registered by "
            f'@fedgs.registry.register("method", {name!r})'
        )
    if not inspect.isfunction(function):
        raise ConfigError(
            f"fedgs.sampler({name!r}) makes a sampler from a function (view, rng), got "
            f"{type(function).__name__}"
        )
    if (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise ConfigError(
            f"sampler {name!r} must be a plain function that returns a Selection, not a generator "
            "or coroutine"
        )


def _check_positional(name: str, parameters: list[inspect.Parameter]) -> None:
    """Refuse a function that cannot be called as `function(view, rng)`.

    Further positional parameters need defaults, as in `def choose(view, rng, k=k)`.
    """
    by_position = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    positional = by_position[:2] + [
        parameter for parameter in by_position[2:] if parameter.default is inspect.Parameter.empty
    ]
    starred = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    if len(positional) == 2 or (starred and len(positional) < 2):
        return
    names = ", ".join(parameter.name for parameter in positional) or "none"
    further = "; a setting is a keyword-only parameter, behind a `*`" if len(positional) > 2 else ""
    raise ConfigError(
        f"sampler {name!r} must take two positional parameters, view and rng; got {names}{further}"
    )


def _check_default(name: str, option: inspect.Parameter, *, module: str) -> None:
    try:
        field = _field(option)
        fields: dict[str, Any] = {option.name: field}
        model = create_model("_Default", __base__=_Checked, __module__=module, **fields)
        if field[1] is not ...:
            model()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        allowed = first["msg"][0].lower() + first["msg"][1:]
        raise ConfigError(
            f"sampler {name!r}: the default of {option.name} "
            f"{allowed.replace('input should', 'should')}, got {option.default!r}"
        ) from None
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"sampler {name!r}: the type of {option.name} cannot be used for a setting: {reason}"
        ) from None
