"""Results are equal for kernels compiled now, loaded from numba's cache, or without any cache."""

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedgs
from fedgs.compiling import load_kernels

pytest.importorskip("numba")

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(fedgs.__path__, "fedgs.")
    if "kernels" in module.name.split(".") and not module.ispkg
)

# Prints a hash of what every kernel computes, then the kernels that were not called.
KERNELS = """
import hashlib, importlib, sys
import numpy as np

modules, how = sys.argv[1].split(","), sys.argv[2]
if how == "no-cache, other-order":
    import numba
    plain = numba.njit
    def refuse(function, **options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available for file")
        return plain(function, **options)
    numba.njit = refuse

from fedgs.graph import MatrixDistances
from fedgs.graph.distance import shortest_paths
from fedgs.solver import SelectionProblem, solve
from fedgs.compiling import load_kernels

digests = {}

def store(name, *values):
    content = b"".join(np.ascontiguousarray(value).tobytes() for value in values)
    digests[name] = hashlib.md5(content).hexdigest()

def linear():
    kernels, means, draws = (
        load_kernels(f"fedgs.local.kernels.{part}") for part in ("linear", "averages", "batches")
    )
    rng = np.random.default_rng(0)
    settings = (200, 60, 10, 10, 10, 0.0), (90, 33, 3, 7, 6, 0.5), (50, 1, 2, 1, 4, 0.0)
    for n, d, classes, batch, steps, mu in settings:
        x, y = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, classes, n)
        rows, sizes = rng.integers(0, n, (6, steps, batch)), rng.integers(1, batch + 1, (6, steps))
        starts = rng.normal(size=(2, classes * d + classes)).astype(np.float32)
        run, rates, mu = np.repeat(np.arange(2), 3), np.full(6, 0.1, np.float32), np.float32(mu)
        models, sums, correct = np.empty((6, starts.shape[1]), np.float32), np.empty(2), np.empty(2)
        offsets = rng.normal(size=(6, starts.shape[1])).astype(np.float32)
        losses = np.zeros(rows.shape, np.float32)
        fixed = (x, y, np.arange(6), rows, sizes, starts, run, rates, mu)
        none = np.float32(0), np.float32(0), False
        for terms in (none, (np.float32(0.1), np.float32(0.9), True)):
            kernels.train_linear(*fixed, *terms, offsets, models, losses)
            store(f"linear with terms {n} {terms}", models, losses)
        kernels.train_linear(*fixed, *none, offsets[:0], models, losses[:0])
        begins, ends = np.array([0, 3]), np.array([n, n - 4])
        kernels.linear_losses(x, y, starts, np.arange(2), begins, ends, sums, correct)
        averages, fine, begin = np.empty_like(starts), np.empty(2, bool), np.array([0, 2])
        for references in (models[:0], models[:2]):
            weights = np.random.default_rng(1).random(6)
            means.averages(
                models, begin, np.array([2, 6]), weights, references, averages, fine
            )
            store(f"linear averages {n} {len(references)}", averages, fine)
            totals = np.empty(averages.shape)
            means.block_sums(
                models, begin, np.array([2, 6]), weights, references, totals, fine
            )
            store(f"linear sums {n} {len(references)}", totals, fine)
        indices = np.zeros(rows.shape, np.int64)
        keys = rng.integers(0, 2**63, 6).astype(np.uint64)
        own = rng.integers(1, n, 6)
        draws.fill_batches(keys, own, own, np.full(6, steps), indices)
        store(f"linear {n}", models, sums, correct, averages, fine, indices)

def graph():
    rng = np.random.default_rng(1)
    places = rng.random((330, 3))
    lengths = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
    lengths = np.maximum(lengths, lengths.T) ** 4
    store("floyd", shortest_paths(lengths))
    far = np.where(lengths > np.partition(lengths, 4, axis=1)[:, 4:5].max() / 30, np.inf, lengths)
    far = np.where(np.minimum(far, far.T) < np.inf, lengths, np.inf)
    sparse = np.kron(np.eye(6), np.ones((330, 330)))
    store("dijkstra", shortest_paths(np.where(sparse > 0, np.tile(far, (6, 6)), np.inf)))
    steps = np.abs(np.subtract.outer(np.arange(200), np.arange(200)))
    path = np.where(steps <= 1, lengths[:200, :200], np.inf)
    store("tree", shortest_paths(path))

def solver():
    rng = np.random.default_rng(2)
    pools = [
        (30, 5, "default"), (12, 4, "default"), (40, 10, "thorough"), (150, 20, "default"),
        (300, 30, "fast"),
    ]
    for count, size, effort in pools:
        places = rng.random((count, 2))
        matrix = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
        matrix = np.maximum(matrix, matrix.T)
        for weight in (1.0, 0.01):
            gains = rng.normal(size=count)
            problem = SelectionProblem(MatrixDistances(matrix), gains, size, weight)
            answer = solve(problem, effort=effort, seed=3)
            store(f"solver {count} {weight}", answer.cohort, answer.objective, answer.upper_bound)

def helpers():
    from fedgs.local.kernels import linear, logits, steps

    rng = np.random.default_rng(0)
    table = rng.normal(size=(14, 64)).astype(np.float32)
    z = rng.normal(size=(12, 2)).astype(np.float32)
    bias, bits = np.zeros(2, np.float32), np.zeros(24, np.int32)
    steps.descend(table, 2, z, 2, bias)
    logits.logits(table[2:], table[:2], bias, z)
    linear._cross_entropies(z.copy(), np.zeros(12, np.int64), 2, bits, np.zeros(12, np.float32))
    linear._slopes(z, np.zeros(12, np.int64), 2, np.float32(0.1), bits)
    logits.exponentials(-np.abs(z.reshape(-1)), bits)

if how == "no-cache, other-order":
    helpers(), solver(), graph(), linear()
else:
    linear(), graph(), solver()
for name in sorted(digests):
    print(name, digests[name])

def is_unused(kernel):
    compiled = hasattr(kernel, "signatures")
    return compiled and not kernel.signatures and kernel.targetoptions.get("inline") != "always"

unused = [
    f"{name}.{kernel.__name__}"
    for name in modules
    for kernel in vars(importlib.import_module(name)).values()
    if is_unused(kernel)
]
print("not called:", *unused)
"""


def started(code: str, folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def printed(process: "subprocess.Popen[str]") -> list[str]:
    try:
        output, errors = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, errors
    return output.splitlines()


@pytest.mark.long
def test_every_kernel_has_the_same_bits_compiled_cached_or_neither(tmp_path: Path) -> None:
    def begin(how: str, cache: str) -> "subprocess.Popen[str]":
        return started(
            KERNELS, tmp_path, ",".join(MODULES), how, NUMBA_CACHE_DIR=str(tmp_path / cache)
        )

    both = begin("as-usual", "cache"), begin("no-cache, other-order", "none")
    compiled, uncached = printed(both[0]), printed(both[1])
    assert compiled[-1] == "not called:"
    assert list((tmp_path / "cache").rglob("*.nbi")) and not (tmp_path / "none").exists()
    cached = printed(begin("as-usual", "cache"))
    assert len(compiled) > 10
    assert compiled[:-1] == cached[:-1] == uncached[:-1]


RUNS = """
import sys
import fedgs
from fedgs.data import Synthetic

fedgs.compare(
    Synthetic(clients=12).load(),
    methods=["uniform", "fedgs", "power_of_choice"],
    out=sys.argv[1],
    model="logistic",
    seeds=[0, 1],
    training={"rounds": 8},
    execution={"workers": 1},
)
"""


@pytest.mark.long
def test_records_of_the_process_that_compiles_are_those_of_one_that_loads(tmp_path: Path) -> None:
    records = []
    for name, threads in (("compiled", "1"), ("cached", "2")):
        printed(
            started(
                RUNS,
                tmp_path,
                name,
                NUMBA_CACHE_DIR=str(tmp_path / "cache"),
                OMP_NUM_THREADS=threads,
            )
        )
        files = sorted((tmp_path / name).rglob("rounds.jsonl"))
        records.append({file.relative_to(tmp_path / name): file.read_bytes() for file in files})
    assert len(records[0]) == 6 and all(records[0].values())
    assert records[0] == records[1]


@pytest.mark.long
def test_training_has_the_same_bits_compiled_for_a_simple_processor(tmp_path: Path) -> None:
    code = KERNELS.replace("linear(), graph(), solver()", "linear()")
    simple = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    usual = started(code, tmp_path, "fedgs.local.kernels.linear", "as-usual")
    other = printed(started(code, tmp_path, "fedgs.local.kernels.linear", "as-usual", **simple))
    assert len(other) == 22  # 7 of each of 3 settings, and the kernels that were not called
    assert printed(usual)[:-1] == other[:-1]


def test_no_kernel_allows_the_compiler_to_reorder_or_fuse() -> None:
    kernels = [
        kernel
        for name in MODULES
        for kernel in vars(load_kernels(name)).values()
        if hasattr(kernel, "targetoptions")
    ]
    assert len(kernels) > 20
    assert not [kernel for kernel in kernels if kernel.targetoptions.get("fastmath")]


def test_lanes_are_added_by_halves() -> None:
    import numba

    from fedgs.local import lanes

    @numba.njit
    def compiled(a, b, c):  # type: ignore[no-untyped-def]
        fused = lanes.fma_lanes(lanes.load(a, 1), lanes.load(b, 0), lanes.zero_lanes())
        return lanes.total(fused), lanes.fma(a[0], b[0], c)

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=17).astype(np.float32), rng.normal(size=16).astype(np.float32)
    products = a[1:] * b
    for half in (8, 4, 2, 1):
        products = products[:half] + products[half:]
    fused = np.float32(np.float64(a[0]) * np.float64(b[0]) - np.float64(a[0] * b[0]))
    assert fused != 0  # rounded twice it would be
    assert compiled(a, b, -(a[0] * b[0])) == (products[0], fused)


@pytest.mark.parametrize(
    "row", [np.zeros(16), np.zeros((2, 16), np.float32), np.zeros(32, np.float32)[::2]]
)
def test_lanes_are_loaded_from_contiguous_float32_vectors_alone(row: np.ndarray) -> None:
    import numba

    from fedgs.local import lanes

    @numba.njit
    def first(row):  # type: ignore[no-untyped-def]
        return lanes.total(lanes.load(row, 0))

    with pytest.raises(numba.TypingError):
        first(row)
