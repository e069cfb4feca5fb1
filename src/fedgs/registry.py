"""Name -> variant, for every family of interchangeable parts.

A variant (a sampler, an availability mode, a data set, a partition, a model) is one frozen pydantic
class that holds settings and does the work. It is registered under a family and a name; a
configuration names it (`availability = "LDF"`) or gives a table (`availability = {name = "LDF",
beta = 0.5}`). Others add their own in the same way, from a plug-in file, an entry point of the
group `fedgs.plugins`, or by handing the object itself over in Python.
"""

import contextlib
import importlib
import importlib.metadata
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer

from fedgs.errors import ConfigError, shown
from fedgs.families import FAMILIES
from fedgs.plugins import import_file
from fedgs.suggestions import meant_setting, nearest

__all__ = [
    "Seeded",
    "Variant",
    "build",
    "check_registered",
    "load_plugin",
    "loaded_plugins",
    "preset_names",
    "register",
    "seed_of",
    "sentence",
    "stand_for",
    "table",
    "text_keys",
    "variant_class",
    "variant_classes",
    "variant_names",
]

_variants: dict[str, dict[str, type["Variant"]]] = {}
_entry_points_loaded: list[bool] = []
_plugins: dict[str, Path] = {}

MOST_NAMES = 12  # that a sentence lists


class Variant(BaseModel):
    """Base of all variants: frozen, strictly typed, unknown keys refused with a sentence.

    NumPy's numbers and booleans are taken as Python's own.

    >>> class Shouting(Variant):
    ...     volume: float = 1.0
    >>> Shouting(volume=2).volume
    2.0
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )

    family: ClassVar[str] = ""
    name: ClassVar[str] = ""
    apart_in_identity: ClassVar[frozenset[str]] = frozenset()
    """Settings whose content is a part of its own in a run's identity, see `fedgs.fingerprint`."""

    later_settings: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Settings that earlier versions did not have, each followed by those that depend on it. Tables
    leave them out where the first one has its default, so that runs of earlier versions stay the
    same runs."""

    @property
    def numerics(self) -> Mapping[str, int]:
        """Versions of the package's numerical code that this variant uses.

        Those of the training are not among them.
        """
        return {}

    def __init__(self, **settings: Any) -> None:
        settings = {key: _plain(value) for key, value in settings.items()}
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigError(sentence(error, where=self.family, model=type(self))) from None
        for reason in self.without_effect(settings).values():
            raise ConfigError(reason)

    def _left_out(self) -> Iterator[str]:
        """The settings that tables leave out, see `later_settings`."""
        fields = type(self).model_fields
        for names in self.later_settings:
            default = fields[names[0]].get_default(call_default_factory=True)
            if getattr(self, names[0]) == default:
                yield from names

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, serialize: Callable[[Any], dict[str, Any]]) -> Any:
        """The settings without those that are left out."""
        settings = serialize(self)
        for name in self._left_out():
            settings.pop(name, None)
        return settings

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """The given settings that change nothing beside the others.

        Returns:
            Dotted setting -> the sentence that refuses it.

        A grid leaves such a setting out where others of its runs use it, as it does with a setting
        that a variant does not have.
        """
        return {}


V = TypeVar("V", bound=Variant)


@runtime_checkable
class Seeded(Protocol):
    """A variant that draws from a seed of its own; None: from the run's seed."""

    seed: int | None


def seed_of(variant: object) -> int | None:
    """The variant's seed, or None if it has none.

    >>> seed_of(build("data", "synthetic")), seed_of(build("method", "md"))
    (0, None)
    """
    return variant.seed if isinstance(variant, Seeded) else None


def check_name(name: object, *, decorator: str) -> None:
    """Refuse what cannot name a variant.

    Names stand in configurations, on command lines and in folders' names.

    Args:
        name: what was given.
        decorator: what takes the name, for the message.

    Raises:
        ConfigError: not a text of letters, digits and `-_.+ `, or one that is empty or begins or
            ends with something else than a letter or digit.

    >>> check_name("by-size", decorator="fedgs.sampler")
    >>> check_name("", decorator="fedgs.sampler")
    Traceback (most recent call last):
    fedgs.errors.ConfigError: fedgs.sampler needs a name of letters, digits and -_.+, such as
    @fedgs.sampler("my-own"), got ''
    """
    if isinstance(name, str) and re.fullmatch(r"\w(?:[\w\-.+ ]*\w)?", name):
        return
    came = f"the function {name.__name__} itself" if inspect.isroutine(name) else repr(name)
    usage = (
        '@register("method", "my-own")' if decorator == "register" else f'@{decorator}("my-own")'
    )
    raise ConfigError(
        f"{decorator} needs a name of letters, digits and -_.+, such as {usage}, got {came}"
    )


def register(family: str, name: str) -> Callable[[type[V]], type[V]]:
    """Class decorator that registers a variant under `family` and `name`.

    A class of the same name from the same file replaces the one that was registered before, as when
    a cell of a notebook is run again or a sampler is made in a loop. Objects and decorated
    functions that were made before keep their own class.

    Raises:
        ConfigError: the name is no name (see `check_name`), stands for a preset, or is taken by a
            class from another file.

    >>> @register("demo", "quiet")
    ... class Quiet(Variant):
    ...     volume: float = 0.1
    >>> build("demo", {"name": "quiet", "volume": 0.2})
    Quiet(volume=0.2)
    """
    check_name(name, decorator="register")
    known_family = FAMILIES.get(family)
    if name in preset_names(family):
        raise ConfigError(f"{family} {name!r} is the name of a preset; choose another one")

    def add(cls: type[V]) -> type[V]:
        if not (isinstance(cls, type) and issubclass(cls, Variant)):
            base = "Variant" if known_family is None else known_family.base
            raise ConfigError(
                f"register({family!r}, {name!r}) takes a subclass of {base}, got {shown(cls)}"
            )
        taken = _variants.setdefault(family, {}).get(name)
        if taken is not None and (
            taken.__qualname__ != cls.__qualname__ or _source_file(taken) != _source_file(cls)
        ):
            raise ConfigError(
                f"{family} {name!r} is already registered by "
                f"{taken.__module__}.{taken.__qualname__}"
            )
        cls.family, cls.name = family, name
        _variants[family][name] = cls
        return cls

    return add


def variant_names(family: str) -> list[str]:
    """The registered names of a family, built-in ones first."""
    if family in FAMILIES:
        importlib.import_module(FAMILIES[family].home)
    return list(_variants.get(family, {}))


def variant_classes(family: str) -> list[type[Variant]]:
    """The registered classes of a family; none where its modules need an extra.

    >>> [variant.name for variant in variant_classes("server")][:2]
    ['sgd', 'momentum']
    """
    with contextlib.suppress(ImportError):
        return [_variants[family][name] for name in variant_names(family)]
    return []


def preset_names(family: str) -> tuple[str, ...]:
    """The names of a family that stand for other variants with settings.

    >>> "fedprox" in preset_names("method"), preset_names("data")
    (True, ())
    """
    home = FAMILIES[family].presets if family in FAMILIES else None
    return () if home is None else tuple(importlib.import_module(home).RESERVED)


def variant_class(family: str, name: str) -> type[Variant]:
    """The class registered under `family` and `name`.

    Raises:
        ConfigError: no such name; the message lists the known ones, presets included, or the
            command that lists them, and the nearest. Or a preset's name: only a configuration can
            have what it stands for.

    >>> variant_class("availability", "LDF").__name__
    'LessDataFirst'
    """
    if not isinstance(name, str):
        raise ConfigError(f"{family}.name must be one of {_listed(family)}; got {shown(name)}")
    if name not in variant_names(family):
        _load_entry_points()
    if name not in _variants.get(family, {}):
        if name in preset_names(family):
            raise ConfigError(
                f"{family} {name!r} is a preset, which sets several parts of a run; "
                "configurations, fedgs run and fedgs.compare take it, "
                f"other uses need one of {', '.join(variant_names(family))}"
            )
        known = _all_names(family)
        raise ConfigError(
            f"{family}.name must be one of {_listed(family)}; got {name!r}{nearest(name, known)}"
        )
    return _variants[family][name]


def check_registered(family: str, name: object, *, setting: str, also: Sequence[str] = ()) -> None:
    """Refuse what is not the name of a registered variant.

    Args:
        family: of the variants.
        name: what was given.
        setting: where it was given, for the message.
        also: further values that are allowed.

    Raises:
        ValueError: no such name; the message lists what is allowed.

    >>> check_registered("engine", "lop", setting="execution.engine", also=["auto"])
    Traceback (most recent call last):
    ValueError: execution.engine should be 'auto', 'loop' or 'stacked', got 'lop'; did you mean
    'loop'?
    """
    if name not in variant_names(family):
        _load_entry_points()
    known = variant_names(family)
    if name not in known:
        *first, last = map(repr, [*also, *known])
        raise ValueError(
            f"{setting} should be {', '.join(first)} or {last}, got {name!r}"
            f"{nearest(str(name), [*also, *known])}"
        )


def refined(model: type[Variant], setting: str, value: object) -> object:
    """What a setting gets: a table without a name gets the name of the setting's default.

    >>> class Part(Variant):
    ...     rule: object = "fedau"
    >>> refined(Part, "rule", {"cutoff": 3})
    {'name': 'fedau', 'cutoff': 3}
    """
    if not isinstance(value, Mapping) or "name" in value:
        return value
    default = model.model_fields[setting].default
    name = default.name if isinstance(default, Variant) else default
    return {"name": name, **value} if isinstance(name, str) and name else value


def build(family: str, value: object) -> Variant:
    """A variant from what a user may write.

    That is its name, a table with `name`, a class, or the object itself; for some families also a
    plain function.

    Raises:
        ConfigError: not one of these, an unknown name, or settings that do not fit.

    >>> build("availability", {"name": "LDF", "beta": 0.5}).beta
    0.5
    """
    # A decorated function stands for its variant.
    value = getattr(value, "__fedgs_variant__", value)
    if isinstance(value, Variant) or (isinstance(value, type) and issubclass(value, Variant)):
        if value.family not in ("", family):
            raise ConfigError(
                f"{family} must be a name, a table with `name` or a variant object of {family}; "
                f"got {shown(value)}"
            )
        return value() if isinstance(value, type) else value
    if isinstance(value, str):
        return variant_class(family, value)()
    if isinstance(value, Mapping):
        if "name" not in value:
            raise ConfigError(f"{family}.name is missing; it must be one of {_listed(family)}")
        settings = {key: item for key, item in value.items() if key != "name"}
        return variant_class(family, value["name"])(**text_keys(settings, family))
    wrapper = FAMILIES[family].wrapper if family in FAMILIES else None
    if wrapper is not None and callable(value) and not isinstance(value, type):
        stands: type[Variant] = getattr(importlib.import_module(FAMILIES[family].home), wrapper)
        return stands(function=value)
    hint = (
        '; decorate a function with @fedgs.sampler("my-own")'
        if family == "method" and callable(value)
        else ""
    )
    raise ConfigError(
        f"{family} must be a name, a table with `name` or a variant object; "
        f"got {shown(value)}{hint}"
    )


def text_keys(settings: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """The settings of a table as keyword arguments.

    Raises:
        ConfigError: a key is no text.
    """
    wrong = next((key for key in settings if not isinstance(key, str)), None)
    if wrong is not None:
        raise ConfigError(
            f"{where} must be a table whose keys are texts, got the key {shown(wrong)}"
        )
    return dict(settings)


def stand_for(function: Callable[..., object], variant: type[Variant]) -> None:
    """Let a decorated function stand for its variant wherever a variant is wanted."""
    vars(function)["__fedgs_variant__"] = variant


def load_plugin(path: Path) -> None:
    """Import a plug-in file, so that configurations can name what it registers.

    The file can import the modules in its folder.

    Raises:
        ConfigError: see `fedgs.plugins.import_file`.
    """
    name, file = import_file(path, _plugins)
    _plugins[name] = file


def loaded_plugins() -> dict[str, Path]:
    """Module name -> file of every plug-in that was loaded."""
    return dict(_plugins)


def table(variant: BaseModel) -> dict[str, Any]:
    """The variant as a table with `name`, ready for TOML: values that are None are left out."""
    settings = variant.model_dump(mode="json", exclude_none=True)
    name = getattr(variant, "name", "")
    return {"name": name, **settings} if name else settings


def sentence(error: ValidationError, *, where: str, model: type[BaseModel] | None = None) -> str:
    """A pydantic error as one sentence: which setting, what is allowed, what came."""
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in (where, *first["loc"]) if str(part))
    came = first.get("input")
    if first["type"] == "extra_forbidden":
        known = list(model.model_fields) if model is not None else []
        key = str(first["loc"][-1])
        models, prefix = [] if model is None else [model], path.removesuffix(key)
        meant = _owners(key, model) or meant_setting(
            key, models, prefix=prefix, variants=variant_classes
        )
        return f"{path} is not a setting; known are {', '.join(known) or 'none'}{meant}"
    if first["type"] == "missing":
        return f"{path} must be given"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    allowed = first["msg"][0].lower() + first["msg"][1:]
    hint = nearest(str(came), re.findall("'([^']*)'", allowed)) if isinstance(came, str) else ""
    return f"{path} {allowed.replace('input should', 'should')}, got {shown(came)}{hint}"


def _plain(value: object) -> object:
    """NumPy's numbers and booleans as Python's own; anything else as it is."""
    return (
        value.item()
        if isinstance(value, np.number | np.bool_) and not isinstance(value, np.timedelta64)
        else value
    )


def _owners(key: str, model: type[BaseModel] | None) -> str:
    """'; it is a setting of ...' with the other variants of a variant's family that have it."""
    if model is None or not issubclass(model, Variant) or model.family not in FAMILIES:
        return ""
    owners = [repr(cls.name) for cls in variant_classes(model.family) if key in cls.model_fields]
    return f"; it is a setting of {', '.join(owners)}" if owners else ""


def _all_names(family: str) -> list[str]:
    """The names that a configuration can give: variants and presets."""
    return [*variant_names(family), *preset_names(family)]


def _listed(family: str) -> str:
    """What follows "must be one of": the names, or the command that lists them if they are many."""
    names = _all_names(family)
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    command = "fedgs methods" if family == "method" else f"fedgs list {family}"
    return f"the {len(names)} names that `{command}` lists"


def _source_file(cls: type) -> str | None:
    try:
        return inspect.getsourcefile(cls)
    except (TypeError, OSError):
        return getattr(sys.modules.get(cls.__module__), "__file__", None)


def _load_entry_points() -> None:
    if not _entry_points_loaded:
        _entry_points_loaded.append(True)
        for entry in importlib.metadata.entry_points(group="fedgs.plugins"):
            entry.load()
