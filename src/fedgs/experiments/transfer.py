"""How runs are sent to worker processes.

Functions and classes that a worker can import are pickled by name; those of a `__main__` module, of
a notebook or of an enclosing function are pickled by value, with what they refer to. Federations
are not pickled: the worker maps their files into memory. The data set that made a federation is
replaced by its settings.
"""

import functools
import importlib
import io
import marshal
import pickle
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict

from fedgs.data import Data, Federation, open_folder, to_folder
from fedgs.data.on_demand import FederationOnDemand
from fedgs.errors import missing_extra
from fedgs.experiments.pickled_tensors import reduced_tensor
from fedgs.experiments.prepared import PreparedRun, SharedDraws, make_plan
from fedgs.experiments.transferred_files import with_files
from fedgs.experiments.transferred_sources import is_installed
from fedgs.families import CODE_IN_IDENTITY, FAMILIES
from fedgs.registry import Variant, loaded_plugins, register, table, variant_class, variant_names

__all__ = [
    "TransferError",
    "dumps",
    "loads",
    "pack_runs",
    "pack_variants",
    "read_federation",
    "register_variants",
    "unpack_runs",
    "write_federation",
]


_DRAWN = "federation.pickle"


class TransferError(Exception):
    """Worker processes cannot carry out the runs; the message is the reason, without a full stop.

    The runs are then carried out in the study's own process.
    """


def write_federation(federation: Federation, folder: Path) -> Path:
    """Write a federation to a folder of this study, for `read_federation` of worker processes.

    Workers map the arrays into memory. What was drawn for a federation that makes its examples on
    demand is written as a pickle, since workers would take as long to draw it again.
    """
    if not isinstance(federation, FederationOnDemand):
        return to_folder(federation, folder)
    folder.mkdir(parents=True)
    (folder / _DRAWN).write_bytes(pickle.dumps(federation))
    return folder


def read_federation(folder: Path) -> Federation:
    """The federation of `write_federation`."""
    if not (folder / _DRAWN).exists():
        return open_folder(folder)
    federation = pickle.loads((folder / _DRAWN).read_bytes())
    assert isinstance(federation, Federation)
    return federation


def pack_runs(
    prepared: Sequence[PreparedRun],
    federations: Sequence[Federation],
    *,
    elsewhere: Collection[str] | None = None,
) -> bytes:
    """The runs as bytes for `unpack_runs`.

    Args:
        prepared: what to carry out.
        federations: those of the runs, each once.
        elsewhere: for another computer, which has installed packages and the modules with these
            names; None: for a process with the same `sys.path`.

    Raises:
        TransferError: a part cannot be pickled; the message names it.
    """
    numbers = {id(federation): number for number, federation in enumerate(federations)}
    try:
        return dumps([_Transferred.of(run, numbers) for run in prepared], numbers, elsewhere)
    except ModuleNotFoundError as error:
        raise TransferError(str(missing_extra(error) or error)) from None
    except Exception as error:
        raise TransferError(_culprit(prepared, numbers, elsewhere) or _reason(error)) from None


def unpack_runs(
    content: bytes, federations: Sequence[Federation], places: Mapping[str, str] | None = None
) -> list[PreparedRun]:
    """The runs in this process; nothing about them is computed again but the plan.

    Args:
        content: from `pack_runs`.
        federations: those of the runs.
        places: path of a file in the settings -> where it is on this computer; None: the paths
            hold here.
    """
    shared: SharedDraws = {}
    packed: list[_Transferred] = loads(content, dict(enumerate(federations)))
    return [run.prepared(federations, shared, places or {}) for run in packed]


def pack_variants(elsewhere: Collection[str] | None = None) -> list[tuple[str, str, bytes]]:
    """Family, name and class of the variants that the user's program registered.

    Those of the package and of its plug-ins are not among them: a worker imports them itself. A
    class that cannot be pickled is left out: a run that uses it is refused by `pack_runs`.
    """
    packed = []
    for family in FAMILIES:
        for name in variant_names(family):
            cls = variant_class(family, name)
            if cls.__module__.split(".")[0] == "fedgs" or cls.__module__ in loaded_plugins():
                continue
            try:
                packed.append((family, name, dumps(cls, {}, elsewhere)))
            except Exception:
                continue
    return packed


def register_variants(packed: Sequence[tuple[str, str, bytes]]) -> None:
    """Register the classes of `pack_variants`; those that cannot be loaded here are left out."""
    for family, name, content in packed:
        try:
            register(family, name)(loads(content, {}))
        except Exception:
            continue


@dataclass(frozen=True)
class _Transferred:
    """A run without its plan and its data.

    Attributes:
        known: the fields of `PreparedRun` other than the plan; the configuration's data set is
            replaced by its settings.
        federation: its number.
    """

    known: Mapping[str, Any]
    federation: int

    @classmethod
    def of(cls, run: PreparedRun, numbers: Mapping[int, int]) -> "_Transferred":
        known = {
            field.name: getattr(run, field.name) for field in fields(run) if field.name != "plan"
        }
        known["config"] = run.config.model_copy(
            update={"data": _settings_only(table(run.config.data))}
        )
        return cls(known, numbers[id(run.plan.federation)])

    def prepared(
        self, federations: Sequence[Federation], shared: SharedDraws, places: Mapping[str, str]
    ) -> PreparedRun:
        config = with_files(self.known["config"], places)
        plan = make_plan(config, federations[self.federation], shared)
        return PreparedRun(**{**self.known, "plan": plan})


class _SettingsOnly(Data):
    """A data set whose federation is loaded already; keeps its settings for the records."""

    model_config = ConfigDict(extra="allow")

    def __reduce__(self) -> tuple[object, ...]:
        return _settings_only, (table(self),)


def _settings_only(settings: Mapping[str, Any]) -> Data:
    name = settings.get("name", "")
    stand_in: type[Data] = type(
        "_SettingsOnly", (_SettingsOnly,), {"name": name, "__module__": __name__}
    )
    return stand_in(**{key: value for key, value in settings.items() if key != "name"})


def _culprit(
    prepared: Sequence[PreparedRun],
    numbers: Mapping[int, int],
    elsewhere: Collection[str] | None,
) -> str | None:
    """Which part of which run cannot be pickled, and why."""
    for run in prepared:
        for family in CODE_IN_IDENTITY:
            part = getattr(run.config, family)
            try:
                dumps(part, numbers, elsewhere)
            except Exception as error:
                name = getattr(part, "name", "") or type(part).__name__
                return f"{family} {name!r} cannot be sent to another process ({_reason(error)})"
    return None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def dumps(
    value: object, names: Mapping[int, object], elsewhere: Collection[str] | None = None
) -> bytes:
    """A value as bytes for `loads`.

    Args:
        value: any object.
        names: id of an object that the other process has -> what both call it.
        elsewhere: see `pack_runs`.
    """
    buffer = io.BytesIO()
    with _modules_by_value(elsewhere) as by_value:
        _pickler()(buffer, names, by_value).dump(value)
    return buffer.getvalue()


def loads(content: bytes, known: Mapping[Any, object]) -> Any:
    """The value of `dumps`.

    Args:
        content: its bytes.
        known: what both call an object -> the object in this process.
    """
    return _Unpickler(content, known).load()


# A class that a function defines refers to itself and to the function's variables. So a class for
# each message would keep the message's tensors until garbage is collected.


@functools.cache
def _pickler() -> Any:
    """The class that pickles by value what the other process cannot import."""
    import cloudpickle
    import torch

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(
            self, buffer: io.BytesIO, names: Mapping[int, object], by_value: _ByValue
        ) -> None:
            super().__init__(buffer)
            self._names, self._by_value = names, by_value

        def persistent_id(self, obj: object) -> object | None:
            return self._names.get(id(obj))

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, torch.Tensor):
                reduced = reduced_tensor(obj)
                return super().reducer_override(obj) if reduced is NotImplemented else reduced
            if isinstance(obj, CodeType):  # with its file, which tracebacks name
                return marshal.loads, (marshal.dumps(obj),)
            if isinstance(obj, FunctionType | type | ModuleType):
                attribute = "__name__" if isinstance(obj, ModuleType) else "__module__"
                name = getattr(obj, attribute, None)
                importable = isinstance(name, str) and self._by_value.is_importable(name)
                path = _decorated(obj) if importable and isinstance(obj, type) else None
                if path is not None:
                    return _variant_of, path
                if isinstance(obj, type) and issubclass(obj, BaseModel):
                    self._by_value.forget_parent(obj)
            return super().reducer_override(obj)

    return Pickler


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, known: Mapping[Any, object]) -> None:
        super().__init__(io.BytesIO(content))
        self._known = known

    def persistent_load(self, name: object) -> object:
        return self._known[name]


def _decorated(cls: type) -> tuple[str, str] | None:
    """Module and qualified name of the decorated function that a variant stands for.

    None where importing the module does not give that function.
    """
    if not issubclass(cls, Variant) or cls.__module__ == "__main__":
        return None
    try:
        module = sys.modules[cls.__module__]
        function = functools.reduce(getattr, cls.__qualname__.split("."), module)
    except (AttributeError, KeyError):
        return None
    stands_for_cls = getattr(function, "__fedgs_variant__", None) is cls
    return (cls.__module__, cls.__qualname__) if stands_for_cls else None


def _variant_of(module: str, qualname: str) -> object:
    return functools.reduce(
        getattr, qualname.split("."), importlib.import_module(module)
    ).__fedgs_variant__


class _ByValue:
    """Modules that another process could not import, such as those made by hand.

    What they define is pickled by value.
    """

    def __init__(self, stack: ExitStack, elsewhere: Collection[str] | None) -> None:
        self._stack = stack
        self._elsewhere = elsewhere
        self._known: dict[str, bool] = {}

    def is_importable(self, name: str) -> bool:
        """Whether a process with the same `sys.path` and plug-ins can import this module."""
        if name not in self._known:
            self._known[name] = importable = name in loaded_plugins() or self._has(name)
            module = sys.modules.get(name)
            if not importable and name != "__main__" and getattr(module, "__name__", None) == name:
                import cloudpickle

                cloudpickle.register_pickle_by_value(module)
                self._stack.callback(cloudpickle.unregister_pickle_by_value, module)
        return self._known[name]

    def _has(self, name: str) -> bool:
        if self._elsewhere is None or not _is_found(name):
            return _is_found(name)
        return name in self._elsewhere or is_installed(sys.modules[name])

    def forget_parent(self, cls: type[BaseModel]) -> None:
        """Leave out the local variables around a class.

        pydantic keeps them for annotations that it has not resolved yet.
        """
        namespace = cls.__dict__.get("__pydantic_parent_namespace__")
        if namespace is not None:
            cls.__pydantic_parent_namespace__ = None
            self._stack.callback(setattr, cls, "__pydantic_parent_namespace__", namespace)


@contextmanager
def _modules_by_value(elsewhere: Collection[str] | None) -> Iterator[_ByValue]:
    with ExitStack() as stack:
        yield _ByValue(stack, elsewhere)


def _is_found(name: str) -> bool:
    """Whether the import system finds the module, without looking at those that are loaded."""
    module = sys.modules.get(name)
    if module is None or name == "__main__":
        return False
    package = name.rpartition(".")[0]
    if package and not _is_found(package):
        return False
    path = getattr(sys.modules[package], "__path__", None) if package else None
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(name, path)
        if spec is not None:
            file = getattr(module, "__file__", None)
            return (
                file is None
                or not spec.has_location
                or Path(file).resolve() == Path(spec.origin).resolve()
            )
    return False
