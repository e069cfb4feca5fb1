"""Numbers and lists of names as tables and sentences show them."""

from collections.abc import Sequence

__all__ = ["listed", "number", "signed"]


def number(value: float, decimals: int) -> str:
    """A figure as tables show it: no zero before the point.

    >>> number(0.3214, 3), number(1.5, 3), number(0.42, 1), number(-0.0001, 3)
    ('.321', '1.500', '0.4', '.000')
    """
    text = f"{value:.{decimals}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    if decimals < 2 or not text.lstrip("-").startswith("0."):
        return text
    return text.replace("0.", ".", 1)


def signed(value: float) -> str:
    """A difference with its sign, three decimals.

    >>> signed(0.0052), signed(-0.0281), signed(0.0)
    ('+.005', '-.028', '.000')
    """
    text = number(value, 3)
    return text if text.startswith("-") or float(text) == 0 else f"+{text}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
