"""Digests of values, functions and classes by content.

A digest is the same in every process, and another one if any part of the content is another. It is
made in one walk. Values are hashed where they are met. Functions, classes, modules and objects are
numbered when they are first met and hashed in that order afterwards, so that objects which refer to
each other need no special case.
"""

import enum
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from fedgs.identity.code import Names, names_of
from fedgs.identity.hashing import joined, joined_sorted
from fedgs.identity.kinds import PLAIN, special
from fedgs.identity.nodes import class_body, function_body, instance_body, module_body
from fedgs.identity.sources import Sources

__all__ = ["Digest", "Digester", "Walk"]


@dataclass(frozen=True)
class Digest:
    """A value's digest.

    Attributes:
        value: 64 hexadecimal digits.
        unknown: the parts that could not be identified, such as "SOCKET (socket.socket)"; if there
            are any, equal values do not mean equal content.
    """

    value: str
    unknown: tuple[str, ...] = ()


class Digester:
    """Makes digests and remembers them: one digester for each preparation of a study.

    Values must not be changed between two calls of the same digester.

    >>> first, second = (lambda x: x + 1), (lambda x: x + 2)
    >>> digester = Digester()
    >>> digester.of(first) == digester.of(second)
    False
    >>> digester.of([1, {"a": 2.0}]) == digester.of([1, {"a": 2.0}])
    True
    >>> digester.of(iter([1])).unknown
    ('the value (builtins.list_iterator)',)
    """

    def __init__(self) -> None:
        self.sources = Sources()
        self._known: dict[int, tuple[object, Digest]] = {}
        self._arrays: dict[int, tuple[object, bytes]] = {}
        self._names: dict[int, tuple[object, Names]] = {}
        self._files: dict[str, str] = {}
        self._open: set[int] = set()

    def of(self, value: object) -> Digest:
        """The digest of any value."""
        if type(value) in PLAIN:
            return Walk(self).digest(value)
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if id(value) in self._open:  # a set that holds a function that looks at the set
            return Digest(joined("open", type(value).__name__).hex())
        self._open.add(id(value))
        try:
            digest = Walk(self).digest(value)
        finally:
            self._open.discard(id(value))
        self._known[id(value)] = (value, digest)
        return digest

    def file(self, path: str | Path) -> str:
        """A hash of a file's bytes; each file is read once."""
        key = str(Path(path).resolve())
        if key not in self._files:
            with Path(key).open("rb") as file:
                self._files[key] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._files[key]

    def once(self, value: object, make: Callable[[], bytes]) -> bytes:
        """The hash of an array, computed once."""
        if id(value) not in self._arrays:
            self._arrays[id(value)] = (value, make())
        return self._arrays[id(value)][1]

    def names(self, code: CodeType) -> Names:
        """The names that code looks up, computed once."""
        if id(code) not in self._names:
            self._names[id(code)] = (code, names_of(code))
        return self._names[id(code)][1]


class Walk:
    """One walk over everything that a value refers to."""

    def __init__(self, digester: Digester) -> None:
        self.digester = digester
        self.sources = digester.sources
        self.unknown: dict[str, None] = {}
        self._numbers: dict[object, int] = {}
        self._bodies: list[Callable[[], bytes]] = []
        self._inside: set[int] = set()
        self._alive: list[object] = []  # so that no id is reused

    def digest(self, value: object) -> Digest:
        """The digest of the value and of all that it refers to."""
        try:
            parts = [self.value(value, "the value")]
            for body in self._bodies:  # grows while it is walked
                parts.append(body())
        except RecursionError:
            return Digest(joined("deep").hex(), ("values that are nested too deeply",))
        return Digest(joined("walk", *parts).hex(), tuple(self.unknown))

    def value(self, value: object, where: str) -> bytes:
        """The hash of a value, or the number of a thing that is hashed later.

        Args:
            value: any value.
            where: the name under which it was met, for the message if it cannot be identified.
        """
        kind = type(value)
        if kind in PLAIN:
            return joined("plain", repr(value))
        if type(value) is list or type(value) is tuple:
            return self._sequence(kind.__name__, value, where)
        if type(value) is dict:
            return self._mapping(value, where)
        if type(value) is set or type(value) is frozenset:
            return joined_sorted("set", (self.apart(member, where) for member in value))
        if isinstance(value, enum.Enum):
            return joined("member", self.value(kind, where), value.name)
        hashed = special(self, value, where)
        if hashed is not None:
            return hashed
        if isinstance(value, FunctionType):
            return self.node(value, lambda: function_body(self, value))
        if isinstance(value, type):
            return self.node(value, lambda: class_body(self, value))
        if isinstance(value, ModuleType):
            return self.node(value, lambda: module_body(self, value))
        return self.node(value, lambda: instance_body(self, value, where))

    def node(self, thing: object, body: Callable[[], bytes], key: object = None) -> bytes:
        """The number of a thing whose body is hashed later, given when it is first met."""
        key = id(thing) if key is None else key
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._alive.append(thing)
            self._bodies.append(body)
        return joined("node", str(self._numbers[key]))

    def apart(self, value: object, where: str) -> bytes:
        """The hash of a value by itself, for members of sets: these have no order for numbers."""
        if type(value) in PLAIN:
            return joined("plain", repr(value))
        digest = self.digester.of(value)
        for part in digest.unknown:
            self.cannot(part.replace("the value", where, 1))
        return bytes.fromhex(digest.value)

    def cannot(self, what: str) -> None:
        """Note a part that cannot be identified."""
        self.unknown[what] = None

    def named(self, value: object, where: str) -> bytes:
        """Note that a value cannot be identified; its type stands for it."""
        kind = type(value)
        self.cannot(f"{where} ({kind.__module__}.{kind.__qualname__})")
        return joined("unknown", kind.__module__, kind.__qualname__)

    def _sequence(self, kind: str, values: Sequence[object], where: str) -> bytes:
        if all(type(element) in PLAIN for element in values):
            return joined(kind, repr(values))
        with self._entered(values) as first:
            if not first:
                return joined("cycle")
            return joined(kind, *(self.value(element, where) for element in values))

    def _mapping(self, values: Mapping[object, object], where: str) -> bytes:
        with self._entered(values) as first:
            if not first:
                return joined("cycle")
            pairs = (
                (self.value(key, where), self.value(content, f"{where}[{key!r:.40}]"))
                for key, content in values.items()
            )
            return joined("dict", *(part for pair in pairs for part in pair))

    @contextmanager
    def _entered(self, value: object) -> Iterator[bool]:
        first = id(value) not in self._inside
        self._inside.add(id(value))
        try:
            yield first
        finally:
            if first:
                self._inside.discard(id(value))
