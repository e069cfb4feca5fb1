"""The traces of Cisco Flame: a JSON configuration for each trainer, or one YAML file."""

import re
from collections.abc import Iterable

from fedgs.errors import DataError, shown
from fedgs.traces.collected import Collected, intervals_of_events
from fedgs.traces.flash import loaded_json

__all__ = ["KEY", "read_trainers", "read_yaml"]

KEY = "avl_events_mobiperf_2st"
"""The setting of a trainer that holds its events with two states."""

_YAML_KEY = "states_2st"
_EVENT = re.compile(r"\(\s{0,8}(\d{1,10})\s{0,8},\s{0,8}['\"](\w{1,20})['\"]\s{0,8}\)\s{0,8},?")
_STATES = {"AVL_TRAIN": True, "UN_AVL": False}
_INJECTED = 300


def read_trainers(files: Iterable[tuple[str, bytes]]) -> Collected:
    """The devices of trainers' configurations.

    `hyperparameters.avl_events_mobiperf_2st` is a text, [(second, 'AVL_TRAIN' or 'UN_AVL'), ...].
    Where it begins with (0, 'AVL_TRAIN') and any state at 300, which are no observations, these two
    are left out and second 300 is second 0.

    Args:
        files: name of a device, and content of its file.

    Raises:
        DataError: a file that is not such a configuration; the sentence names the device.

    >>> events = "[(0, 'AVL_TRAIN'), (300, 'UN_AVL'), (360, 'AVL_TRAIN'), (400, 'UN_AVL')]"
    >>> content = '{"hyperparameters": {"avl_events_mobiperf_2st": "%s"}}' % events
    >>> read_trainers([("1", content.encode())]).traces({}).on.tolist()
    [60]
    """
    collected = Collected()
    for name, content in files:
        try:
            settings = loaded_json(content).get("hyperparameters")
            text = settings.get(KEY) if isinstance(settings, dict) else None
            if not isinstance(text, str):
                raise DataError(f"it must have a text hyperparameters.{KEY}")
            _add(name, _events(text), collected)
        except DataError as error:
            raise DataError(f"trainer {shown(name)}: {error}") from None
    return collected


def read_yaml(content: bytes) -> Collected:
    r"""The devices of `mobiperf_traces.yaml`, traces.DEVICE.states_2st: a list of [second, state].

    Only the block style of that file is read, not YAML in general.

    Raises:
        DataError: another form; the sentence names the line.

    >>> text = b"traces:\n  a:\n    states_2st:\n    - - 60\n      - AVL_TRAIN\n    - - 90\n"
    >>> read_yaml(text + b"      - UN_AVL\n").traces({}).off.tolist()
    [90]
    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 text ({error.reason})") from None
    events: dict[str, list[tuple[int, bool]]] = {}
    device, key, second = "", "", -1
    for number, line in enumerate(lines, start=1):
        word = line.strip()
        if found := re.fullmatch(r"  (\S{1,100}):", line):
            device, key = found[1], ""
        elif found := re.fullmatch(r"    (\w{1,100}):", line):
            key = found[1]
        elif key == _YAML_KEY and (found := re.fullmatch(r"- - (\d{1,10})", word)):
            second = int(found[1])
        elif key == _YAML_KEY and (found := re.fullmatch(r"- '?(\w{1,20})'?", word)):
            if second < 0 or found[1] not in _STATES:
                raise DataError(f"it must hold pairs of second and state, line {number} has none")
            events.setdefault(device, []).append((second, _STATES[found[1]]))
            second = -1
        elif key == _YAML_KEY and word and line.startswith("    - "):
            raise DataError(f"it must hold pairs of second and state, line {number} has none")
    if not events:
        raise DataError(f"it must have a list traces.DEVICE.{_YAML_KEY}, got none")
    collected = Collected()
    for name, found_events in events.items():
        _add(name, found_events, collected)
    return collected


def _events(text: str) -> list[tuple[int, bool]]:
    """The pairs of a text, and nothing else in it."""
    rest = _EVENT.sub("", text).strip()
    pairs = [(int(second), state) for second, state in _EVENT.findall(text)]
    other = next((state for _, state in pairs if state not in _STATES), None)
    if re.fullmatch(r"\[\s*\]", rest) is None or other is not None:
        raise DataError(
            f"its events must be a list of (second, 'AVL_TRAIN' or 'UN_AVL'), got "
            f"{shown(other if other is not None else rest, 60)}"
        )
    return [(second, _STATES[state]) for second, state in pairs]


def _add(name: str, events: list[tuple[int, bool]], collected: Collected) -> None:
    # Injected before the events of every device: available from 0, and a state at 300 s.
    if events[:1] == [(0, True)] and [second for second, _ in events[1:2]] == [_INJECTED]:
        events = [(second - _INJECTED, state) for second, state in events[2:]]
        collected.repairs["injected"] += 1
    if not events:
        collected.repairs["devices_without_events"] += 1
        collected.add(name, [], [], (0, 0))
        return
    collected.add(name, *intervals_of_events(events, collected.repairs))
