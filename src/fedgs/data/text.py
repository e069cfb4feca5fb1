"""Texts as sequences of tokens: each character is a token, and the next one its label."""

from collections.abc import Iterable, Mapping

import numpy as np

from fedgs.arrays import AnyArray, IntArray
from fedgs.errors import DataError

__all__ = ["Texts", "check_texts", "encoded"]

# (n,) texts and (n,) next characters, or as many labels as a text has characters.
Texts = tuple[AnyArray, AnyArray]


def check_texts(x: Iterable[object], y: Iterable[object], where: str) -> Texts:
    """Texts and their labels as arrays of objects.

    Args:
        x: texts with at least one character.
        y: for each text the next character, or a text of the same length, the label of each
            character.
        where: what messages call them.

    Raises:
        DataError: an entry that is no such text; the message has its place.
    """
    xs, ys = list(x), list(y)
    for place, (text, label) in enumerate(zip(xs, ys, strict=True)):
        if not isinstance(text, str) or not text:
            raise DataError(
                f"{where}: x must hold texts with at least one character, got {text!r} in row "
                f"{place}"
            )
        if not isinstance(label, str) or len(label) not in (1, len(text)):
            raise DataError(
                f"{where}: y must hold the next character, or a label for each of the {len(text)} "
                f"characters, got {label!r} in row {place}"
            )
    return np.array(xs, dtype=object), np.array(ys, dtype=object)


def encoded(
    parts: Mapping[str, Mapping[str, Texts]], *, every: bool
) -> tuple[dict[str, dict[str, tuple[IntArray, IntArray]]], str]:
    """Tokens and labels of the texts of all users in all parts, and the vocabulary.

    The vocabulary has the distinct characters of all parts in sorted order; a character's place is
    its token. Shorter texts get token 0 at their end, with label -1.

    Args:
        parts: part -> user -> texts.
        every: whether each character has the next one as its label; otherwise only the last one
            has, as LEAF's Shakespeare counts. Texts with a label for each character keep these.

    >>> texts = np.array(["ab", "c"], dtype=object), np.array(["b", "a"], dtype=object)
    >>> parts, vocabulary = encoded({"train": {"ann": texts}}, every=True)
    >>> vocabulary, *(array.tolist() for array in parts["train"]["ann"])
    ('abc', [[0, 1], [2, 0]], [[1, 1], [0, -1]])
    """
    pairs = [texts for users in parts.values() for texts in users.values()]
    characters = {char for x, y in pairs for text in (*x, *y) for char in text}
    vocabulary = "".join(sorted(characters))
    place = {char: token for token, char in enumerate(vocabulary)}
    longest = max((len(text) for x, _ in pairs for text in x), default=0)
    tokens = {
        part: {user: _tokens(texts, place, longest, every=every) for user, texts in users.items()}
        for part, users in parts.items()
    }
    return tokens, vocabulary


def _tokens(
    texts: Texts, place: Mapping[str, int], longest: int, *, every: bool
) -> tuple[IntArray, IntArray]:
    """(n, L) tokens and (n, L) labels of one user."""
    x = np.zeros((len(texts[0]), longest), dtype=np.int64)
    y = np.full((len(texts[0]), longest), -1, dtype=np.int64)
    for row, (text, label) in enumerate(zip(*texts, strict=True)):
        numbers = [place[char] for char in text]
        x[row, : len(text)] = numbers
        if len(label) == len(text) > 1:
            y[row, : len(text)] = [place[char] for char in label]
            continue
        if every:
            y[row, : len(text) - 1] = numbers[1:]
        y[row, len(text) - 1] = place[label]
    return x, y
