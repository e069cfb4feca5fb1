"""Every setting of every mode with values that nobody means: one sentence, or a mode that works."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import Availability, checked_available
from fedgs.errors import UserError
from fedgs.registry import build, variant_class, variant_names
from fedgs.traces import Traces, write_traces

VALUES: list[object] = [
    *(-1, 0, 1, 2, 10**9, 2**31, 2**62, 2**63, 10**30, True, None),
    *(-0.0, 5e-324, 1e-300, 1e-12, 1 - 1e-16, 0.5, 1e8, 1e308, math.inf, -math.inf, math.nan),
    *("", "x", ".", "\0", "\0.npz", "\0.npy", "a" * 300 + ".npz", "a" * 300 + ".npy"),
    *([], [0.5, "x"], {}, {"name": "LDF", "beta": 7}, {"name": "trace"}, "markov", "LDF"),
]
# a setting that has an effect only beside others
BESIDE: dict[tuple[str, str], dict[str, object]] = {
    ("diurnal", "coupling"): {"couple": "data_size"},
    ("trace", "coupling"): {"couple": "data_size"},
    ("trace", "min_days"): {"unobserved": "away"},
}
MODES = sorted(variant_names("availability"))


@pytest.fixture
def clients() -> Clients:
    counts = np.random.default_rng(0).multinomial(9, [0.25] * 4, size=6)
    names = tuple(f"client-{k}" for k in range(6))
    return Clients(names, np.array([1, 7, 7, 30, 2, 9]), label_counts=counts)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, dict[str, object]]:
    """What the modes that read files need."""
    np.save(tmp_path / "who.npy", np.random.default_rng(0).random((6, 40)) < 0.5)
    on = np.arange(8) * 2400
    traces = Traces(on, on + 3600, range(9), [0] * 8, [86_400] * 8, [*"abcdefgh"])
    path = write_traces(traces, tmp_path / "trace.npz")
    return {"file": {"path": str(tmp_path / "who.npy")}, "trace": {"path": str(path)}}


def outcome(settings: dict[str, object], clients: Clients) -> str:
    """The sentence that refuses a mode; empty where it has states in far and near rounds."""
    try:
        mode = build("availability", settings)
        assert isinstance(mode, Availability)
        mode.check(clients, 30)
        for t in (0, 1, 29):
            checked_available(mode, clients, t)
            if mode.has_rates():
                rates = mode.rates(t, clients)
                assert ((rates >= 0) & (rates <= 1)).all()
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", MODES)
def test_any_value_of_any_setting_is_one_sentence_or_works(
    name: str, clients: Clients, files: dict[str, dict[str, object]]
) -> None:
    worked = set()
    for key in variant_class("availability", name).model_fields:
        for value in VALUES:
            beside = BESIDE.get((name, key), {})
            settings = {"name": name, **files.get(name, {}), **beside, key: value}
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = outcome(settings, clients)
            assert "\n" not in found, settings
            assert len(found) < 700, settings
            worked |= set() if found else {key}
    assert "seed" in worked  # large ones are seeds
