"""What many tests share."""

import os
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

from fedgs import compiling, registry
from fedgs.data import Federation

settings.register_profile("same_every_time", derandomize=True, deadline=None)
settings.load_profile("same_every_time")

os.environ.setdefault("FEDGS_DATA", "")
if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # one process a core: more threads would only wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def make_federation(
    sizes: tuple[int, ...] = (9, 4, 7, 12, 5, 8),
    *,
    dimensions: int = 6,
    labels: int = 3,
    seed: int = 0,
    validation: bool = True,
) -> Federation:
    """A small learnable federation: Gaussian classes, clients that prefer some labels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(labels, dimensions)) * 2

    def draw(counts: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        owner = np.repeat(np.arange(len(counts)), counts)
        y = (owner + rng.integers(0, 2, len(owner))) % labels
        return (centres[y] + rng.normal(size=(len(y), dimensions))).astype(np.float32), y, owner

    x, y, owner = draw(sizes)
    valid = draw(tuple(2 for _ in sizes)) if validation else None
    test_x, test_y, _ = draw((30,))
    names = np.array([f"site-{k}" for k in range(len(sizes))])
    return Federation.from_arrays(
        x,
        y,
        client=names[owner],
        test=(test_x, test_y),
        validation=None if valid is None else (valid[0], valid[1], names[valid[2]]),
        name="toy",
    )


@pytest.fixture(scope="session")
def toy_federation() -> Federation:
    """Six clients named site-0 to site-5."""
    return make_federation()


@pytest.fixture(autouse=True)
def plugins_are_forgotten() -> Iterator[None]:
    """Undo registrations of a test's plug-in files, since other tests load files of equal names."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    registry._plugins.clear()
    for variants in registry._variants.values():
        for name in [
            name for name, cls in variants.items() if cls.__module__.startswith("fedgs_plugin_")
        ]:
            del variants[name]
    for name in [name for name in sys.modules if name.startswith("fedgs_plugin_")]:
        del sys.modules[name]


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package as it is where numba is not installed."""
    monkeypatch.setattr(compiling, "numba_installed", lambda: False)
    compiling.load_kernels.cache_clear()
    yield
    monkeypatch.undo()
    compiling.load_kernels.cache_clear()
