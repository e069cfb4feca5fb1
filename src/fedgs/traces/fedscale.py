"""FedScale's `client_behave_trace`: a pickle, which is read without executing anything in it."""

import io
import pickle
import pickletools
from collections.abc import Mapping

from fedgs.errors import DataError, shown
from fedgs.traces.collected import Collected
from fedgs.traces.intervals import LATEST

__all__ = ["plain_dict", "read_fedscale"]

_PLAIN = frozenset(
    [
        "PROTO",
        "FRAME",
        "MARK",
        "STOP",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "EMPTY_LIST",
        "LIST",
        "APPEND",
        "APPENDS",
        "EMPTY_DICT",
        "DICT",
        "SETITEM",
        "SETITEMS",
        "EMPTY_TUPLE",
        "TUPLE",
        "TUPLE1",
        "TUPLE2",
        "TUPLE3",
        "PUT",
        "BINPUT",
        "LONG_BINPUT",
        "MEMOIZE",
        "GET",
        "BINGET",
        "LONG_BINGET",
    ]
)
_LARGEST = (1 << 63) - 1
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")


class _Unpickler(pickle.Unpickler):
    """Makes numbers, texts, lists, tuples and dicts, and nothing else."""

    def find_class(self, module: str, name: str) -> object:
        raise DataError(f"it must hold plain values, got {shown(f'{module}.{name}')}")

    def persistent_load(self, identity: object) -> object:
        raise DataError("it must hold plain values, got a persistent identity")


def read_fedscale(content: bytes) -> Collected:
    """The devices of a pickled dict, id -> {active, inactive, finish_time, ...}.

    Interval i of a device is [active[i], inactive[i]) in seconds, and the device is observed from
    second 0 to `finish_time`, after which it repeats.

    Raises:
        DataError: no pickle, one that could execute code, or a record that does not fit; the
            sentence names the operation and the byte, or the device.

    >>> record = {"active": [0, 100], "inactive": [10, 110], "finish_time": 300}
    >>> read_fedscale(pickle.dumps({1: record})).traces({}).seen_to.tolist()
    [300]
    """
    collected, room = Collected(), len(content)
    for identity, record in plain_dict(content).items():
        room -= _add(str(identity), record, collected, room)
    return collected


def plain_dict(content: bytes) -> dict[int | str, object]:
    """The pickled dict of devices, made of plain values alone; nothing in it is executed.

    Raises:
        DataError: no pickle, one that could execute code, or not a dict with ids as keys.

    >>> plain_dict(pickle.dumps({1: [0.5]}))
    {1: [0.5]}
    """
    _scan(content)
    try:
        loaded = _Unpickler(io.BytesIO(content)).load()
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise _broken(error) from None
    if type(loaded) is not dict:
        raise DataError(f"it must hold a dict of devices, got {type(loaded).__name__}")
    for identity in loaded:
        if type(identity) not in (int, str):
            raise DataError(f"ids of devices must be int or str, got {type(identity).__name__}")
        if type(identity) is int and abs(identity) > _LARGEST:
            raise DataError(f"ids of devices must be at most {_LARGEST}, got a larger number")
        if type(identity) is int and str(identity) in loaded:
            raise DataError(
                f"ids of devices must be distinct as texts, got {identity} as int and as str"
            )
    return loaded


def _scan(content: bytes) -> None:
    """Refuse every operation that does more than to make a plain value."""
    try:
        for operation, argument, at in pickletools.genops(content):
            if operation.name not in _PLAIN:
                raise DataError(
                    f"its pickle must hold plain values, got the operation {operation.name} at "
                    f"byte {at}, which can execute code or make other objects"
                )
            # the memory of the unpickler has as many places as the largest index
            if operation.name in _PUTS and not 0 <= int(argument or 0) <= len(content):
                raise DataError(f"its pickle has the memo index {argument} at byte {at}")
    except (DataError, MemoryError):
        raise
    except Exception as error:
        raise _broken(error) from None


def _add(name: str, record: object, collected: Collected, room: int) -> int:
    """Add a device; returns the number of its intervals.

    Lists that many records share take few bytes, so `room` is the number of further intervals that
    the file's length allows.
    """
    device = f"device {shown(name)}"
    if not isinstance(record, Mapping):
        raise DataError(f"{device} must have a dict, got {type(record).__name__}")
    on, off, end = (record.get(key) for key in ("active", "inactive", "finish_time"))
    for key, seconds in (("active", on), ("inactive", off)):
        if type(seconds) is not list or not set(map(type, seconds)) <= {int}:
            raise DataError(f"{device} must have a list of int seconds {key!r}")
    assert isinstance(on, list) and isinstance(off, list)
    if len(on) != len(off) or type(end) is not int:
        raise DataError(
            f"{device} must have as many seconds 'active' as 'inactive' and an int 'finish_time', "
            f"got {len(on)} and {len(off)} and {type(end).__name__}"
        )
    if len(on) > room:
        raise DataError(f"{device} has more intervals than the file has bytes")
    if end < 0 or any(begin < 0 or later < begin for begin, later in zip(on, off, strict=True)):
        raise DataError(f"{device} must have 0 <= active <= inactive and finish_time >= 0")
    if end > LATEST:
        raise DataError(f"{device} must have a finish_time of at most {LATEST}, got {shown(end)}")
    if off and max(off) > end:  # never reached: the device repeats before
        beyond = [(begin, later) for begin, later in zip(on, off, strict=True) if later > end]
        collected.repairs["beyond_finish_time"] += len(beyond)
        inside = [(b, min(e, end)) for b, e in zip(on, off, strict=True) if b < end]
        on, off = [begin for begin, _ in inside], [later for _, later in inside]
    collected.add(name, on, off, (0, end))
    return len(on)


def _broken(error: Exception) -> DataError:
    reason = str(error).partition("\n")[0][:100] or type(error).__name__
    return DataError(f"it is not a readable pickle: {reason}")
