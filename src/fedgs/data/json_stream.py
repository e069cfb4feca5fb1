"""Reading one large JSON document piece by piece."""

import json
from collections.abc import Iterator
from typing import TextIO

from fedgs.errors import DataError

__all__ = ["JsonStream"]

_CHUNK = 1 << 16
# Characters. A syntax error further before the end of the text read so far is not from a token that
# the end cuts off.
_LONGEST_TOKEN = 1 << 20


class JsonStream:
    """A cursor over a JSON document.

    `members` walks an object key by key, and `value` decodes the value at the cursor. Only the
    value being decoded is held in memory. O(length of the text).

    >>> import io
    >>> stream = JsonStream(io.StringIO('{"a": [1, 2], "b": {"c": 3}}'), "demo")
    >>> [(key, stream.value()) for key in stream.members()]
    [('a', [1, 2]), ('b', {'c': 3})]
    """

    def __init__(self, file: TextIO, where: str) -> None:
        self._file, self._where = file, where
        self._text, self._at = "", 0
        # characters of the longest value so far: reading that much avoids most second attempts
        self._typical = _CHUNK
        self._decoder = json.JSONDecoder()

    def members(self) -> Iterator[str]:
        """The keys of the object at the cursor.

        Each value must be consumed before the next key is requested.
        """
        self._take("{")
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self._broken(f"a key must be a text, got {key!r}")
            self._take(":")
            yield key
            if self._peek() == "}":
                self._at += 1
                return
            self._take(",")

    def value(self) -> object:
        """The value at the cursor."""
        self._peek()
        while True:
            try:
                decoded: object
                decoded, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if error.pos < len(self._text) - _LONGEST_TOKEN or not self._more():
                    raise self._broken(str(error)) from None
                continue
            except RecursionError:
                raise self._broken("it is nested too deeply") from None
            # a number within three characters of the end of the text read so far may be incomplete,
            # such as "1" of "1e+5"
            if len(self._text) - end >= 3 or not self._more():
                self._typical = max(self._typical, end - self._at)
                self._at = end
                return decoded

    def _peek(self) -> str:
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise self._broken("it ends too early")

    def _take(self, expected: str) -> None:
        if (character := self._peek()) != expected:
            raise self._broken(f"expected {expected!r}, found {character!r}")
        self._at += 1

    def _more(self) -> bool:
        """Read more text; False at the end of the file.

        At least as much is read as is held, so that repeated decoding costs a constant factor.
        """
        try:
            chunk = self._file.read(max(self._typical, len(self._text) - self._at))
        except UnicodeDecodeError as error:
            raise self._broken(f"it is not UTF-8 text ({error.reason})") from None
        if not chunk:
            return False
        self._text, self._at = self._text[self._at :] + chunk, 0
        return True

    def _broken(self, reason: str) -> DataError:
        return DataError(f"{self._where} is truncated or is not LEAF-style JSON: {reason}")
