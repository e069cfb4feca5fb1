"""Rules that say from a phone's state whether it is available."""

import re
from collections.abc import Callable, Mapping

from fedgs.errors import ConfigError, shown

__all__ = ["DEFAULT_RULE", "STATES", "parsed_rule"]

DEFAULT_RULE = "charging & wifi & locked"
STATES = ("charging", "wifi", "locked", "screen_off")

State = Mapping[str, float]
Rule = Callable[[State], bool]

_TOKEN = re.compile(r"\s*(battery\s*>=\s*\d{1,3}(?:\.\d{1,3})?|[a-z_]+|[&|()])")
_LONGEST = 200
_WORDS = {"and": "&", "or": "|"}


def parsed_rule(text: str) -> Rule:
    """A function of a state: `charging`, `wifi`, `locked`, `screen_off` (0 or 1) and `battery` (%).

    Args:
        text: names of states and `battery>=PERCENT`, joined by `&` or `and`, `|` or `or`, and
            parentheses; `&` binds more tightly.

    Raises:
        ConfigError: anything else.

    >>> rule = parsed_rule("(locked | screen_off) & battery>=50")
    >>> rule({"locked": 0, "screen_off": 1, "battery": 80.0}), rule({"locked": 1, "battery": 20.0})
    (True, False)
    """
    tokens = _tokens(text)
    rule, at = _any_of(tokens, 0, text)
    if at < len(tokens):
        raise _wrong(text, f"{tokens[at]!r} after its end")
    return rule


def _tokens(text: str) -> list[str]:
    if len(text) > _LONGEST:
        raise ConfigError(
            f"the rule must have at most {_LONGEST} characters, got {len(text)} characters"
        )
    tokens, at, stripped = [], 0, text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            raise _wrong(text, repr(stripped[at]))
        token = re.sub(r"\s", "", found[1])
        tokens.append(_WORDS.get(token, token))
        at = found.end()
    return tokens


def _any_of(tokens: list[str], at: int, text: str) -> tuple[Rule, int]:
    first, at = _all_of(tokens, at, text)
    parts = [first]
    while at < len(tokens) and tokens[at] == "|":
        part, at = _all_of(tokens, at + 1, text)
        parts.append(part)
    return (lambda state: any(part(state) for part in parts)), at


def _all_of(tokens: list[str], at: int, text: str) -> tuple[Rule, int]:
    first, at = _term(tokens, at, text)
    parts = [first]
    while at < len(tokens) and tokens[at] == "&":
        part, at = _term(tokens, at + 1, text)
        parts.append(part)
    return (lambda state: all(part(state) for part in parts)), at


def _term(tokens: list[str], at: int, text: str) -> tuple[Rule, int]:
    token = tokens[at] if at < len(tokens) else ""
    if token == "(":
        inner, at = _any_of(tokens, at + 1, text)
        if at >= len(tokens) or tokens[at] != ")":
            raise _wrong(text, "a parenthesis that is not closed")
        return inner, at + 1
    if token.startswith("battery>="):
        least = float(token.removeprefix("battery>="))
        return (lambda state: state.get("battery", -1.0) >= least), at + 1
    if token in STATES:
        return (lambda state: state.get(token, 0) > 0), at + 1
    raise _wrong(text, repr(token) if token else "an end without a state")


def _wrong(text: str, found: str) -> ConfigError:
    return ConfigError(
        f"the rule must be made of {', '.join(STATES)}, battery>=PERCENT, &, | and parentheses, "
        f"got {found} in {shown(text)}"
    )
