"""JSON read as a stream."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data import json_stream as streams
from fedgs.data.json_stream import JsonStream
from fedgs.errors import DataError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=40)
@given(
    document=st.dictionaries(st.text(max_size=5), JSON, max_size=5),
    chunk=st.integers(1, 7),
    indent=st.sampled_from([None, 2]),
)
def test_the_stream_reads_what_json_reads_at_any_chunk_size(
    document: dict[str, object], chunk: int, indent: int | None
) -> None:
    text = json.dumps(document, indent=indent)

    class Slow(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            return super().read(chunk)  # as if the file gave only a few characters at a time

    stream = JsonStream(Slow(text), "demo")
    assert {key: stream.value() for key in stream.members()} == document


@pytest.mark.parametrize(
    "text", ['{"a" 1}', '{"a": 1 "b": 2}', "[1]", "{1: 2}", '{"a": tru}', '{"a": ' + "[" * 100_000]
)
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    stream = JsonStream(io.StringIO(text), "demo")
    with pytest.raises(DataError, match="demo is truncated or is not LEAF-style JSON"):
        dict((key, stream.value()) for key in stream.members())  # noqa: C402


def test_a_syntax_error_is_found_without_reading_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "_LONGEST_TOKEN", 100)
    monkeypatch.setattr(streams, "_CHUNK", 1000)
    file = io.StringIO('{"a": [1, oops, ' + "1, " * 1_000_000)
    with pytest.raises(DataError, match="is not LEAF-style JSON"):
        [JsonStream(file, "demo").value()]
    assert file.tell() < 10_000
