"""FLASH's `state_traces.json`: what happened on phones, from which a rule makes intervals."""

import datetime
import json
import re
from collections.abc import Iterator, Mapping

from fedgs.errors import DataError, shown
from fedgs.traces.collected import Collected, intervals_of_events
from fedgs.traces.intervals import DAY
from fedgs.traces.rules import DEFAULT_RULE, parsed_rule

__all__ = ["read_flash"]

_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?\s+([A-Za-z0-9_.%]{1,40})\s*"
)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)%")
_CHANGES: Mapping[str, tuple[str, float]] = {
    "battery_charged_on": ("charging", 1),
    "battery_charged_off": ("charging", 0),
    "screen_on": ("screen_off", 0),
    "screen_off": ("screen_off", 1),
    "screen_lock": ("locked", 1),
    "screen_unlock": ("locked", 0),
    "wifi": ("wifi", 1),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", 0)),
}


def read_flash(content: bytes, rule: str = DEFAULT_RULE) -> Collected:
    r"""The devices of a JSON object, id -> {messages: lines of "date time TAB event", ...}.

    A state is off until an event says otherwise, and any other network ends Wi-Fi. Seconds count
    from the midnight before the first event of the file. Lines that are no events are skipped and
    counted as malformed.

    Args:
        content: of the file.
        rule: which states make a device available, see `rules.parsed_rule`.

    Raises:
        DataError: not such a file.
        ConfigError: not a rule.

    >>> lines = "2020-01-28 10:00:00\twifi\n2020-01-28 10:05:00\t4g\n"
    >>> found = read_flash(json.dumps({"1": {"messages": lines}}).encode(), "wifi")
    >>> found.traces({}).on.tolist(), found.traces({}).off.tolist()
    ([36000], [36300])
    """
    is_available = parsed_rule(rule)
    devices = loaded_json(content)
    collected, events = Collected(), {}
    for name, record in devices.items():
        messages = record.get("messages") if isinstance(record, dict) else None
        if not isinstance(messages, str):
            raise DataError(f"device {shown(name)} must have a text 'messages'")
        found = list(_events(messages, collected))
        if found:
            events[name] = found
        else:
            collected.repairs["devices_without_events"] += 1
    if not events:
        raise DataError("it must have a line 'date time TAB event', got none")
    midnight = min(second for found in events.values() for second, _, _ in found) // DAY * DAY
    for name, found in events.items():
        state: dict[str, float] = {}
        available = []
        for second, key, value in sorted(found, key=lambda event: event[0]):
            state[key] = value
            available.append((second - midnight, is_available(state)))
        collected.add(name, *intervals_of_events(available, collected.repairs))
    return collected


def loaded_json(content: bytes) -> dict[str, object]:
    """The object of a JSON file.

    Raises:
        DataError: no JSON, or no object.
    """
    try:
        loaded = json.loads(content)
    except MemoryError:
        raise
    except RecursionError:
        raise DataError("it is not readable JSON: it is nested too deeply") from None
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"it is not readable JSON: {reason[:100]}") from None
    if not isinstance(loaded, dict):
        raise DataError(f"it must be a JSON object, got {type(loaded).__name__}")
    return loaded


def _events(messages: str, collected: Collected) -> Iterator[tuple[int, str, float]]:
    """Second, state and its value of each line that tells a change."""
    days: dict[str, int | None] = {}
    for line in messages.splitlines():
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        change = None if found is None else _change(found[5].lower())
        if found is not None and found[1] not in days:
            days[found[1]] = _day(found[1])
        day = None if found is None else days[found[1]]
        if found is None or change is None or day is None:
            collected.repairs["malformed"] += 1
            continue
        clock = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])
        yield day * DAY + clock, *change


def _change(event: str) -> tuple[str, float] | None:
    percent = _PERCENT.fullmatch(event)
    return _CHANGES.get(event) if percent is None else ("battery", float(percent[1]))


def _day(date: str) -> int | None:
    try:
        return datetime.date.fromisoformat(date).toordinal()
    except ValueError:
        return None
