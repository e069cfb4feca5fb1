import hashlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import mtrand

from fedgs.rng import derived_seed, stream, streams


def test_equal_names_give_equal_streams_in_another_process() -> None:
    code = "from fedgs.rng import stream; print(stream(7, 'select', 3).integers(10**12))"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(other) == stream(7, "select", 3).integers(10**12)


def test_seed_purpose_and_every_key_tell_streams_apart() -> None:
    names = [
        (0, "a"),
        (1, "a"),
        (0, "b"),
        (0, "a", 0),
        (0, "a", 1),
        (0, "a", 0, 0),
        (0, "a", 0, 1),
        (0, "a", 1, 0),
    ]
    assert len({int(stream(*name).integers(2**62)) for name in names}) == len(names)


def test_a_stream_does_not_depend_on_draws_from_another() -> None:
    first = stream(0, "select", 5).random()
    stream(0, "available", 5).random(1000)
    assert stream(0, "select", 5).random() == first


def test_derived_seed_fits_a_torch_generator() -> None:
    assert all(0 <= derived_seed(seed, "init") < 2**63 for seed in range(50))


@given(st.integers(0, 2**70), st.text(max_size=5), st.lists(st.integers(0, 2**40), max_size=3))
def test_a_name_means_what_numpy_makes_of_its_numbers(
    seed: int, purpose: str, keys: list[int]
) -> None:
    word = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    plain = np.random.Generator(
        np.random.PCG64(np.random.SeedSequence((seed, word, len(keys), *keys)))
    )
    assert stream(seed, purpose, *keys).integers(2**62) == plain.integers(2**62)


@given(
    st.integers(0, 2**70),
    st.text(max_size=5),
    st.integers(0, 2**33) | st.integers(2**32 - 4, 2**32 + 1),
    st.integers(0, 4),
)
def test_streams_of_successive_keys_are_those_of_each_key(
    seed: int, purpose: str, first: int, number: int
) -> None:
    keys = range(first, first + number)
    made = [generator.bit_generator.state for generator in streams(seed, purpose, keys)]
    assert made == [stream(seed, purpose, key).bit_generator.state for key in keys]


def test_streams_of_a_purpose_with_a_short_hash_are_those_of_each_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One purpose in 2^32 has a word less, and SeedSequence then hashes the key in another way."""
    monkeypatch.setattr("fedgs.rng._name", lambda seed, _, keys: (seed, 77, keys))
    made = [generator.integers(2**62) for generator in streams(3, "any", range(2))]
    assert made == [stream(3, "any", key).integers(2**62) for key in range(2)]


@pytest.mark.parametrize("name", [(-1, "a"), (0, "a", -2)])
def test_negative_seeds_and_keys_are_refused(name: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"^seeds and keys must be >= 0, got -"):
        stream(*name)


@pytest.mark.parametrize("keys", [range(0, 10, 3), range(9, 2, -2), range(4, 4)])
def test_streams_of_any_range_are_those_of_each_key(keys: range) -> None:
    made = [generator.integers(2**62) for generator in streams(3, "any", keys)]
    assert made == [stream(3, "any", key).integers(2**62) for key in keys]


def test_negative_keys_of_streams_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^seeds and keys must be >= 0, got -1"):
        list(streams(0, "a", range(-1, 2)))


@pytest.mark.parametrize(
    "name", ["get_bit_generator", "set_bit_generator", "get_state", "set_state", "seed"]
)
def test_the_global_generator_of_numpy_is_the_one_that_models_use(name: str) -> None:
    # Read from `numpy.random.mtrand` for its type stubs; NumPy 2 has the same functions in both.
    assert getattr(mtrand, name) is getattr(np.random, name)
