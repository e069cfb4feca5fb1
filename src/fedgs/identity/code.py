"""What a function does: its syntax tree where its source file holds it, else its bytecode; and the names that it looks up."""

import ast
import dis
from dataclasses import dataclass
from types import CodeType

from fedgs.identity.hashing import joined, joined_sorted
from fedgs.identity.sources import Sources, canonical

__all__ = ["Names", "code_digest", "names_of"]


@dataclass(frozen=True)
class Names:
    """What code looks up.

    Attributes:
        globals: names that are read as globals, in order of their first use.
        attributes: all names in the code, attributes included.
        imports: (module, name or "", level) of import statements.
    """

    globals: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[tuple[str, str, int], ...]


def code_digest(code: CodeType, sources: Sources) -> bytes:
    """The same for functions that do the same: name, file, line numbers and comments do not count.

    Defaults and decorators are left out: the caller hashes the values that they gave.
    """
    node = sources.definition(code)
    if node is None:
        return joined("bytecode", _bytecode(code))
    if isinstance(node, ast.Lambda):
        return joined("lambda", _parameters(node.args), canonical(node.body))
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return joined("def", type(node).__name__, _parameters(node.args), canonical(node.body))


def _parameters(arguments: ast.arguments) -> str:
    groups = [
        [one.arg for one in group]
        for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)
    ]
    return repr(
        [
            *groups,
            *(one.arg if one is not None else None for one in (arguments.vararg, arguments.kwarg)),
        ]
    )


def _bytecode(code: CodeType) -> bytes:
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    table: bytes = getattr(code, "co_exceptiontable", b"")
    return joined(
        "code",
        code.co_code,
        table,
        repr(numbers),
        repr(names),
        *(_constant(one) for one in code.co_consts),
    )


def _constant(value: object) -> bytes:
    if isinstance(value, CodeType):
        return _bytecode(value)
    if isinstance(value, frozenset):
        return joined_sorted("frozenset", (_constant(one) for one in value))
    if isinstance(value, tuple):
        return joined("tuple", *(_constant(one) for one in value))
    return joined("constant", repr(value))


def names_of(code: CodeType) -> Names:
    """Names of the code and of the functions and classes inside it."""
    read: dict[str, None] = {}
    attributes: set[str] = set()
    imports: dict[tuple[str, str, int], None] = {}
    waiting = [code]
    while waiting:
        one = waiting.pop(0)
        attributes |= set(one.co_names)
        recent: list[object] = []
        for instruction in dis.get_instructions(one):
            if (
                instruction.opname in ("LOAD_NAME", "LOAD_GLOBAL")
                or "DICT_OR_GLOBALS" in instruction.opname
            ):
                read[str(instruction.argval)] = None
            elif instruction.opname == "IMPORT_NAME":
                level = recent[-2] if len(recent) > 1 and isinstance(recent[-2], int) else 0
                given = recent[-1] if recent and isinstance(recent[-1], tuple) else ()
                for name in given or ("",):
                    imports[str(instruction.argval), str(name), level] = None
            if instruction.opname.startswith("LOAD_CONST") or instruction.opname.startswith(
                "LOAD_SMALL_INT"
            ):
                recent.append(instruction.argval)
        waiting += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
    return Names(tuple(read), frozenset(attributes), tuple(imports))
