"""The process that reads files of others, with bounded memory and time.

It is started by `convert.py`; what it reads is plain data, and it writes one file of arrays.
"""

import contextlib
import json
from pathlib import Path

from fedgs.errors import FedgsError
from fedgs.traces.capacities import (
    CAPACITIES,
    capacity_file,
    read_capacities,
    write_capacities,
)
from fedgs.traces.intervals import write_plain
from fedgs.traces.reading import read_form

__all__ = ["CPU_SECONDS", "MEMORY", "main"]

MEMORY = 1_000_000_000
"""Bytes of address space."""

CPU_SECONDS = 25


def main(arguments: list[str]) -> None:
    """Read a file and write its traces or capacities, and print {"error": sentence} or {}.

    Args:
        arguments: path of the file, its form, its rule as JSON, and the .npz to write.
    """
    _limit()
    try:
        answer = _read(*arguments)
    except FedgsError as error:
        answer = {"error": str(error), "kind": type(error).__name__}
    except MemoryError:
        answer = {"error": f"it needs more than {MEMORY / 1e9:g} GB of memory to be read"}
    except RecursionError:
        answer = {"error": "it is nested too deeply"}
    except OSError as error:
        answer = {"error": f"it cannot be read: {error.strerror or error}"}
    print(json.dumps(answer))


def _read(path: str, form: str, rule: str, out: str) -> dict[str, str]:
    if form == CAPACITIES:
        write_capacities(read_capacities(capacity_file(Path(path))), Path(out))
        return {}
    collected = read_form(Path(path), form, json.loads(rule))
    write_plain(collected.traces({}), Path(out))
    return {}


def _limit() -> None:
    """Bound the address space and the processor time, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, soft, hard in (
        (resource.RLIMIT_AS, MEMORY, MEMORY),
        (resource.RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 1),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # a lower limit holds already
            resource.setrlimit(kind, (soft, hard))
