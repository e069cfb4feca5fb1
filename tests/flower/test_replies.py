"""Arrays of replies: bytes that are no array are refused, and the others are read as numpy does."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg
from hypothesis import given
from hypothesis import strategies as st

from fedgs.flower import SampledStrategy
from fedgs.flower.replies import values_of

LIKE = np.array([0.0, 1.0], dtype=np.float32)


def saved(array: Any, save: Any = np.save) -> bytes:
    file = io.BytesIO()
    save(file, array)
    return file.getvalue()


def headed(header: str, body: bytes = b"12345678") -> bytes:
    """Bytes with a header of one's own."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + body


def described(descr: str = "'<f4'", shape: str = "(2,)") -> bytes:
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")


GOOD = saved(LIKE)
# What a client may send as an array of the model; none is one.
MALFORMED = {
    "nothing": b"",
    "cut body": GOOD[:-3],
    "cut header": GOOD[:20],
    "text": b"no array",
    "pickle": b"\x80\x04N.",
    "archive": saved(LIKE, np.savez),
    "damaged archive": b"PK\x03\x04" + bytes(50),
    "more than any memory": described(shape="(1000000000000000,)"),
    "more than any number": described(shape=f"({'9' * 40},)"),
    "negative shape": described(shape="(-2,)"),
    "open bracket": headed("{'descr': (((\n"),
    "many brackets": headed("(" * 5000 + "\n"),
    "indented": headed("  \n {\n  a\n"),
    "a list": headed("[1]\n"),
    "a list as key": headed("{[]: 1}\n"),
    "an expression": described(shape="(2**20,)"),
    "no type": described(descr="5"),
    "odd fields": described(descr="[('a', '<f4', 'q')]"),
    "object": saved(np.array([None, None]), lambda file, array: np.save(file, array, True)),
}


def array(data: bytes, stype: str = "numpy.ndarray") -> Array:
    return Array(dtype="float32", shape=(2,), stype=stype, data=data)


@pytest.mark.parametrize("name", [*MALFORMED, "foreign"])
def test_bytes_that_are_no_array_are_refused_by_name(world: Any, tmp_path: Path, name: str) -> None:
    sent = array(GOOD, "torch") if name == "foreign" else array(MALFORMED[name])

    def fault(reply: Any) -> Any:
        reply.content["arrays"] = ArrayRecord({"w": sent})
        return reply

    grid = world(["site-0", "site-1", "site-2"])
    grid.faults[102] = fault
    strategy = SampledStrategy(
        FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=3, records=tmp_path
    )
    result = strategy.start(grid, world.model(), num_rounds=1)
    assert result.arrays["w"].numpy() == pytest.approx([5 / 3, 1.0])  # of clients 0 and 1
    (event,) = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    assert (event["client"], event["event"]) == ("site-2", "refused")
    assert event["detail"].startswith("its array 'w' cannot be read")


@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=150).map(lambda rest: GOOD[:10] + rest),
        st.tuples(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=3)).map(
            lambda change: GOOD[: change[0]] + change[1] + GOOD[change[0] + len(change[1]) :]
        ),
    )
)
def test_any_bytes_are_read_as_numpy_reads_them_or_refused(data: bytes) -> None:
    try:
        expected = np.load(io.BytesIO(data))
    except Exception:
        with pytest.raises(ValueError):  # noqa: PT011 the text is numpy's
            values_of(array(data), LIKE)
    else:
        found = values_of(array(data), LIKE)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 4)])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", "<f8", "<i8", "|b1", "<c8", "<U3"])
def test_arrays_are_read_bit_by_bit_whatever_they_resemble(
    dtype: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, shape).astype(dtype)
    for order in "CF":
        stored = Array(np.asarray(values, order=order))
        for like in (values, np.zeros(shape), np.zeros(shape, dtype="<f4"), LIKE):
            found = values_of(stored, like)
            assert found.dtype == values.dtype
            assert found.shape == values.shape
            assert np.array_equal(found, values)


def test_an_array_like_the_models_is_neither_parsed_nor_copied() -> None:
    stored = array(GOOD)
    found = values_of(stored, LIKE)
    assert np.shares_memory(found, np.frombuffer(stored.data, dtype=np.uint8))
