"""Functions by what they do: a hash of their code, and the names that they look up.

The hash is that of the syntax tree if the source file still holds the function, else that of the
bytecode.
"""

import ast
import dis
from dataclasses import dataclass
from types import CodeType

from fedgs.identity.hashing import joined, joined_sorted
from fedgs.identity.sources import Import, Sources, canonical

__all__ = ["Names", "code_digest", "names_of"]


@dataclass(frozen=True)
class Names:
    """What code looks up.

    Attributes:
        globals: names that are read as globals, in order of their first use.
        attributes: all names in the code, attributes included.
        imports: the import statements.
    """

    globals: tuple[str, ...]
    attributes: frozenset[str]
    imports: tuple[Import, ...]


def code_digest(code: CodeType, sources: Sources) -> bytes:
    """A hash of what a function does: name, file, line numbers and comments do not count.

    Defaults and decorators are left out: the caller hashes the values that they evaluated to.
    """
    node = sources.definition(code)
    if node is None:
        return joined("bytecode", _bytecode(code))
    if isinstance(node, ast.Lambda):
        return joined("lambda", _parameters(node.args), canonical(node.body))
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return joined("def", type(node).__name__, _parameters(node.args), canonical(node.body))


def _parameters(arguments: ast.arguments) -> str:
    groups = (arguments.posonlyargs, arguments.args, arguments.kwonlyargs)
    names = [[parameter.arg for parameter in group] for group in groups]
    variadic = (arguments.vararg, arguments.kwarg)
    return repr([*names, *(None if parameter is None else parameter.arg for parameter in variadic)])


def _bytecode(code: CodeType) -> bytes:
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = [_constant(constant) for constant in code.co_consts]
    table = code.co_exceptiontable
    return joined("code", code.co_code, table, repr(numbers), repr(names), *constants)


def _constant(value: object) -> bytes:
    if isinstance(value, CodeType):
        return _bytecode(value)
    if isinstance(value, frozenset):
        return joined_sorted("frozenset", (_constant(member) for member in value))
    if isinstance(value, tuple):
        return joined("tuple", *(_constant(element) for element in value))
    return joined("constant", repr(value))


def names_of(code: CodeType) -> Names:
    """Names of the code and of the functions and classes inside it.

    An import statement loads its level and its names as constants just before `IMPORT_NAME`. The
    names of instructions differ between versions of Python: `LOAD_SMALL_INT` is new in 3.14,
    `LOAD_FROM_DICT_OR_GLOBALS` in 3.12. `test_a_helper_module_counts_however_it_is_imported` guards
    this.
    """
    read: dict[str, None] = {}
    attributes: set[str] = set()
    imports: dict[Import, None] = {}
    waiting = [code]
    while waiting:
        inner = waiting.pop(0)
        attributes |= set(inner.co_names)
        constants: list[object] = []
        for instruction in dis.get_instructions(inner):
            operation = instruction.opname
            if operation in ("LOAD_NAME", "LOAD_GLOBAL") or "DICT_OR_GLOBALS" in operation:
                read[str(instruction.argval)] = None
            elif operation == "IMPORT_NAME":
                level, names = (0, None, *constants)[-2:]
                for name in names if isinstance(names, tuple) else ("",):
                    module = str(instruction.argval)
                    imports[module, str(name), level if isinstance(level, int) else 0] = None
            elif operation.startswith(("LOAD_CONST", "LOAD_SMALL_INT")):
                constants.append(instruction.argval)
        waiting += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]
    return Names(tuple(read), frozenset(attributes), tuple(imports))
