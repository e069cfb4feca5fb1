"""One function for each row of docs/reference/limits.md, whose input the package refuses.

A function registered under the row's id gets an empty folder. `tests/test_limits.py` compares the
message that it raises with the one on the page.
"""

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np

import fedgs
from fedgs.availability import Trace
from fedgs.data import ByColumn, Labelled, Normalization, Quantiles, Shards, export, share_out
from fedgs.data.on_demand import holding
from fedgs.graph import Graph
from fedgs.registry import build
from fedgs.sampling import FedGS
from fedgs.system import devices_of
from fedgs.system_settings import System
from fedgs.traces import convert, write_traces

CASES: dict[str, Callable[[Path], object]] = {}
X, Y, OWNER = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]), np.array(["a", "b", "a", "b"])
IMAGES = np.full((4, 3, 8, 8), 200, dtype=np.uint8)
BYTES = Normalization(255.0, (0.5,), (0.5,))


def case(name: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    """Register a function under the id of its row."""

    def add(function: Callable[[Path], object]) -> Callable[[Path], object]:
        assert name not in CASES, name
        CASES[name] = function
        return function

    return add


def made(**changes: object) -> object:
    """`Federation.from_arrays` of four examples and two clients with some arguments changed.

    `x` is used for the test set too.
    """
    settings: dict[str, object] = {"x": X, "y": Y, "client": OWNER, **changes}
    settings.setdefault("test", (settings["x"], Y))
    return fedgs.Federation.from_arrays(settings.pop("x"), settings.pop("y"), **settings)  # type: ignore[arg-type]


def from_arrays(row: str, **changes: object) -> None:
    """Register a case of `from_arrays`."""
    case(row)(lambda folder: made(**changes))


def npz(name: str, settings: dict[str, object] | None = None, **changes: object) -> None:
    """Register a case of `data = file`."""

    def load(folder: Path) -> object:
        base = {"x": X, "y": Y, "client": np.array([0, 1, 0, -1])}
        arrays = {key: value for key, value in {**base, **changes}.items() if value is not None}
        np.savez(folder / "mine.npz", **arrays)  # type: ignore[arg-type]
        return fedgs.File(path=str(folder / "mine.npz"), **(settings or {})).load()  # type: ignore[arg-type]

    case(name)(load)


def leaf(name: str, settings: dict[str, object] | None = None, **changes: object) -> None:
    """Register a case of `data = leaf`: `train/data.json` with some keys changed."""

    def load(folder: Path) -> object:
        user = {"x": [[0.5, 1.0]], "y": [0]}
        base = {
            "users": ["anna", "ben"],
            "num_samples": [1, 1],
            "user_data": {"anna": user, "ben": user},
        }
        for part, content in (("train", {**base, **changes}), ("test", base)):
            (folder / part).mkdir()
            entries = {key: value for key, value in content.items() if value is not None}
            (folder / part / "data.json").write_text(json.dumps(entries), encoding="utf-8")
        return fedgs.Leaf(path=str(folder), **(settings or {})).load()  # type: ignore[arg-type]

    case(name)(load)


def users(**changes: object) -> dict[str, object]:
    """`user_data` of two users, the first one changed."""
    user = {"x": [[0.5, 1.0]], "y": [0]}
    return {"anna": {**user, **changes}, "ben": user}


def csv(name: str, text: str) -> None:
    """Register a case of an availability matrix for three rounds of two clients."""

    def check(folder: Path) -> object:
        (folder / "who.csv").write_text(text, encoding="utf-8")
        clients = fedgs.Clients(("a", "b"), np.array([2, 2]))
        return fedgs.AvailabilityFile(path=folder / "who.csv").check(clients, 3)

    case(name)(check)


def objects(*rows: object) -> np.ndarray:
    """Rows as an array of objects."""
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


def table(value: object) -> np.ndarray:
    """Four rows of two objects, the last but one with `value`."""
    return np.array([[0.5, True], [1, False], [0.25, value], [0.5, True]], dtype=object)


# --- client ids
# --------------------------------------------------------------------------------------------------

from_arrays("client-nan", client=np.array([0.0, 1.0, np.nan, np.nan]))
from_arrays("client-none", client=["a", None, "b", "b"])
from_arrays("client-empty", client=["a", "", "b", "b"])
from_arrays("client-masked", client=np.ma.array([0, 1, 0, 1], mask=[0, 0, 0, 1]))
from_arrays("client-mixed", client=objects(1, "a", 1, "a"))
from_arrays("client-fraction", client=[0.0, 1.5, 0.0, 1.5])
from_arrays("client-boolean", client=[True, False, True, False])
from_arrays("client-date", client=np.array(["2024-01-01"] * 4, dtype="datetime64[D]"))
from_arrays("client-huge", client=np.array([1, 2**63, 1, 1], dtype=np.uint64))
from_arrays("client-column", client=OWNER[:, None])
from_arrays("client-order-word", client_order="by size")
from_arrays("client-order-names", client_order=["a", "c"])
from_arrays("validation-stranger", validation=(X, Y, ["a", "b", "c", "a"]))


@case("names-nan")
def _names_nan(folder: Path) -> object:
    return fedgs.Clients(("a", float("nan")), np.array([1, 1]))  # type: ignore[arg-type]


@case("names-twice")
def _names_twice(folder: Path) -> object:
    return fedgs.Clients(("a", "a"), np.array([1, 1]))


@case("names-as-text")
def _names_as_text(folder: Path) -> object:
    return fedgs.Clients((1, "1"), np.array([1, 1]))


@case("column-fraction")
def _column_fraction(folder: Path) -> object:
    source = Labelled("mine", X, Y, (X, Y), num_labels=2)
    return share_out(source, ByColumn(column="site"), 2, columns={"site": np.array([0.5, 1, 1, 1])})


# --- labels and classes
# --------------------------------------------------------------------------------------------------

from_arrays("label-mixed", y=["cat", 1, "cat", 1])
from_arrays("label-parts", y=["cat", "dog", "cat", "dog"], test=(X, Y))
from_arrays("label-none", y=["cat", "dog", None, "dog"])
from_arrays("label-unhashable", y=np.array([{}, "dog", "cat", "dog"], dtype=object))
from_arrays("label-fraction", y=[0, 1, 0.5, 1])
from_arrays("label-nan", y=[0, 1, np.nan, 1])
from_arrays("label-infinite", y=[0, 1, np.inf, 1])
from_arrays("label-negative", y=[-1, 1, -1, 1])
from_arrays("label-missing", y=[0, 1, None, 1])
from_arrays("label-column", y=Y[:, None])
from_arrays("label-one-hot", y=np.eye(2)[Y])
from_arrays("label-many", y=[30, 210, 365, 8605])
from_arrays("classes-few", classes=1)
from_arrays("classes-type", classes=2.5)
from_arrays("classes-memory", classes=10**9)
npz("npz-classes", settings={"classes": 1})


# --- targets of other tasks
# --------------------------------------------------------------------------------------------------

NUMBERS = {"y": Y / 2, "test": (X, Y / 2), "task": "regression"}
TOKENS = np.array([[0, 1, 2]] * 4)
SEQUENCES = {"x": TOKENS, "y": TOKENS, "test": (TOKENS, TOKENS), "task": "sequence"}

from_arrays("task-unknown", task="ranking")
from_arrays("target-nan", **{**NUMBERS, "y": np.array([0, np.nan, 0, 0])})
from_arrays("target-shape", **{**NUMBERS, "y": np.zeros((4, 1, 1))})
from_arrays("target-classes", **NUMBERS, classes=3)
from_arrays("target-columns", **{**NUMBERS, "test": (X, np.zeros((4, 2)))})
from_arrays("multilabel-entry", y=np.full((4, 2), 0.5), task="multilabel")
from_arrays("sequence-label", **{**SEQUENCES, "y": TOKENS - 2})
from_arrays("sequence-shape", **{**SEQUENCES, "y": TOKENS[:, :2], "test": (TOKENS, TOKENS[:, :2])})
from_arrays("sequence-masked", **{**SEQUENCES, "y": np.where(np.eye(4, 1, -2) > 0, -1, TOKENS)})
from_arrays("groups-classes", groups=OWNER)
from_arrays("groups-length", **NUMBERS, groups=OWNER[:3])
from_arrays("groups-quantiles", **NUMBERS, groups={"quantiles": 1})
from_arrays(
    "groups-vector",
    y=np.zeros((4, 2)),
    test=(X, np.zeros((4, 2))),
    task="regression",
    groups=Quantiles(4),
)


@case("groups-missing")
def groups_missing(folder: Path) -> object:
    """A partition by label of the targets of a regression."""
    source = Labelled("mine", X, Y / 2, (X, Y / 2), num_labels=1, task="regression")
    return share_out(source, Shards(per_client=1), 2)


npz("groups-column", {"task": "regression", "groups": "ward"}, y=Y / 2)

# --- examples
# --------------------------------------------------------------------------------------------------

from_arrays("x-text", x=np.array([["a", "b"]] * 4))
from_arrays("x-object-text", x=table("red"))
from_arrays("x-missing", x=table(None))
from_arrays("x-ragged", x=[[1.0, 2.0], [1.0], [1.0, 2.0], [1.0, 2.0]])
from_arrays("x-object-ragged", x=objects(np.ones(3), np.ones(3), np.ones(5), np.ones(3)))
from_arrays("x-date", x=np.full((4, 1), "2024-01-01", dtype="datetime64[D]"))
from_arrays("x-complex", x=X + 1j)
from_arrays("x-structured", x=np.zeros((4, 1), dtype=[("a", float)]))
from_arrays("x-masked", x=np.ma.array(X, mask=X > 0))
from_arrays("x-flat", x=np.zeros(4))
from_arrays("x-scalar", x=1.0)
from_arrays("x-no-features", x=np.zeros((4, 0)))
from_arrays("x-nan", x=np.where(X > 0, np.nan, 0))
from_arrays("x-infinite", test=(np.where(X > 0, np.inf, X), Y))
from_arrays("x-beyond-float32", x=X.astype(np.float64) * 1e300)
from_arrays("x-integer-rounded", x=np.array([[1], [2], [16777217], [3]]))
from_arrays("channels-word", channels="middle")
from_arrays("channels-vector", channels="last")
from_arrays("mask-empty", x=[[1], [], [1], [1]], test=([[1]], [0]), mask=True)
from_arrays("mask-features", x=[np.eye(2), np.eye(3), np.eye(2), np.eye(2)], mask=True)
from_arrays("mask-sequence", **SEQUENCES, mask=True)
from_arrays("mask-labels", **{**SEQUENCES, "x": [[1, 2], [1], [1], [1]], "y": [[1]] * 4})
from_arrays("test-stranger", test=(X, Y, ["a", "b", "a", "c"]))
from_arrays("lengths", y=Y[:3])
from_arrays("no-examples", x=X[:0], y=Y[:0], client=OWNER[:0], test=(X, Y))
from_arrays("test-shape", test=(X[:, :3], Y))
from_arrays("test-type", test=(X.astype(int), Y))
from_arrays("test-tuple", test=X)
from_arrays("features-nan", client_features=[[1.0], [np.nan]])
from_arrays("features-none", client_features=np.empty((2, 0)))
from_arrays("features-long", client_features=[[1e200], [1.0]])
from_arrays("features-rows", client_features=np.eye(3))
from_arrays("name-number", name=5)
from_arrays("name-empty", name="")


# --- normalization
# --------------------------------------------------------------------------------------------------

from_arrays("bytes-without-normalization", x=IMAGES)
from_arrays(
    "normalization-channels",
    x=np.zeros((4, 32, 32, 3), np.uint8),
    normalization=Normalization(255.0, (0.5,) * 3, (0.5,) * 3),
)
from_arrays(
    "normalization-count", x=IMAGES, normalization=Normalization(255.0, (0.5,) * 2, (0.5,) * 2)
)
from_arrays(
    "normalization-range",
    x=np.full((4, 2), 1e30),
    normalization=Normalization(1e-30, (0.0,), (1.0,)),
)
case("normalization-sd-zero")(lambda folder: Normalization(255.0, (0.5,), (0.0,)))
case("normalization-scale-zero")(lambda folder: Normalization(0.0, (0.5,), (0.5,)))
case("normalization-nan")(lambda folder: Normalization(255.0, (float("nan"),), (0.5,)))
case("normalization-lengths")(lambda folder: Normalization(255.0, (0.5, 0.5, 0.5), (0.5,)))
npz("npz-bytes", x=np.full((4, 1, 8, 8), 200, dtype=np.uint8))
npz("normalization-table", settings={"normalization": {"means": [0.5], "sd": [0.5]}})


# --- files
# --------------------------------------------------------------------------------------------------

npz("npz-objects", client=objects("a", "b", "a", "b"))
npz("npz-client-text", client=OWNER)
npz("npz-client-nan", client=np.array([0, np.nan, 0, -1]))
npz("npz-missing", y=None)
npz("npz-no-test", client=np.array([0, 1, 0, 1]))
npz("npz-client-test", {"client_test": True})
npz("npz-empty-client", split=np.array([0, 1, 0, 2]))
leaf("leaf-no-users", users=None)
leaf("leaf-users-twice", users=["anna", "anna", "ben"], num_samples=[1, 1, 1])
leaf("leaf-users-differ", users=["anna", "zoe"])
leaf("leaf-num-samples", num_samples=[1, 2])
leaf("leaf-text", user_data=users(x=[["a", "b"]]))
leaf(
    "leaf-sequence",
    {"task": "sequence"},
    user_data={"anna": {"x": ["abc"], "y": [0]}, "ben": {"x": ["abc"], "y": ["d"]}},
)
leaf("leaf-lengths", user_data=users(y=[0, 1]), num_samples=[2, 1])


@case("leaf-two-files")
def _leaf_two_files(folder: Path) -> object:
    user = {"x": [[0.5]], "y": [0]}
    for part, name in (("train", "a"), ("train", "b"), ("test", "a")):
        (folder / part).mkdir(exist_ok=True)
        content = {"users": ["anna"], "num_samples": [1], "user_data": {"anna": user}}
        (folder / part / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return fedgs.Leaf(path=str(folder)).load()


# --- datasets
# --------------------------------------------------------------------------------------------------

ITEMS = list(zip(X, Y, strict=True))


def dataset(name: str, items: object, **settings: object) -> None:
    """Register a case of `from_dataset`."""
    given = {"client": [0, 1, 0, 1], **settings}
    case(name)(lambda folder: fedgs.Federation.from_dataset(items, **given))  # type: ignore[arg-type]


dataset("dataset-stream", iter(ITEMS))
dataset("dataset-name", [{"image": x, "label": y} for x, y in ITEMS], x="pixels", y="label")
dataset("dataset-place", ITEMS, y=2)
dataset("dataset-owners", ITEMS, client=[0, 1])
dataset("dataset-share", ITEMS, test=2)

# --- tables
# --------------------------------------------------------------------------------------------------


def csv_table(
    name: str, text: str = "30,a,0\n40,b,1\n", head: str = "age,ward,ill", **settings: object
) -> None:
    """Register a case of `data = table`."""

    def load(folder: Path) -> object:
        (folder / "mine.csv").write_text(f"{head}\n{text}", encoding="utf-8")
        given = {"label": "ill", "client": "ward", **settings}
        return fedgs.data.TableFile(path=str(folder / "mine.csv"), **given).load()  # type: ignore[arg-type]

    case(name)(load)


csv_table("table-column", client="wards")
csv_table("table-missing", "30,a,0\n,b,1\n")
csv_table("table-gap", "30,a,0\n40,NA,1\n")
csv_table("table-nan", "30,a,0\nnan,b,1\n")
csv_table("table-text", "30,a,x,0\n40,b,y,1\n", "age,ward,kind,ill", features=["kind"])
csv_table("table-split", split="ward")
csv_table("table-owners", client=None)
csv_table("table-cells", "30,a,0\n40,b,1\n40,b\n")
csv_table("table-names", head="age,age,ill")
csv_table("table-leak", one_hot=["ill"])
csv_table("table-use", client="ill")
csv_table("table-owner-feature", features=["age", "ward"])
case("table-parquet")(
    lambda folder: fedgs.data.TableFile(
        path="mine.parquet", label="ill", client="ward", delimiter=";"
    )
)
csv_table("table-twice", features=["age", "age"])
case("table-frame")(lambda folder: fedgs.Federation.from_dataframe([[30, "a"]], "ill"))
case("table-frame-file")(
    lambda folder: fedgs.Federation.from_dataframe([[30, "a"]], "ill", delimiter=";")
)

# --- partitions
# --------------------------------------------------------------------------------------------------


def partition(case_name: str, chosen: object, clients: int, *, copies: int = 1) -> None:
    """Register a case of a partition of the four examples, repeated."""

    def shared_out(folder: Path) -> object:
        x, y = np.tile(X, (copies, 1)), np.tile(Y, copies)
        source = Labelled("mine", x, y, (X, Y), num_labels=2)
        return share_out(source, build("partition", chosen), clients)  # type: ignore[arg-type]

    case(case_name)(shared_out)


def lists(**settings: object) -> dict[str, object]:
    """The table of the partition `index_lists`."""
    return {"name": "index_lists", **settings}


partition("capped-minimum", "dirichlet_capped", 4, copies=5)
partition(
    "capped-draws",
    {"name": "quantity_skew", "minimum": 5, "max_draws": 3, "concentration": 0.001},
    4,
    copies=5,
)
partition("lists-twice", lists(lists={"ann": [0, 1], "ben": [1, 2]}), 2)
partition("lists-names", lists(lists={1: [0, 1], "1": [2, 3]}), 2)
partition("lists-range", lists(lists=[[0, 1], [2, 4]]), 2)
partition("lists-rest", lists(lists=[[0], [3]]), 2)
partition("lists-numbers", lists(lists=[[0.5, 1.0], [3]]), 2)

# --- sizes
# --------------------------------------------------------------------------------------------------


def sizes(name: str, **training: object) -> None:
    """Register a case of `compare` with a cohort that does not suit four clients."""

    def run(folder: Path) -> object:
        federation = fedgs.Federation.from_arrays(X, Y, client=["a", "b", "c", "d"], test=(X, Y))
        return fedgs.compare(
            federation, methods=["uniform"], model="logistic", training={"rounds": 1, **training}
        )

    case(name)(run)


sizes("cohort-above-clients", cohort_limit=5)
sizes("cohort-zero", cohort_limit=0)
sizes("cohort-twice", cohort_limit=3, proportion=0.5)


@case("graph-memory")
def _graph_memory(folder: Path) -> object:
    count = 100_000
    clients = fedgs.Clients(
        tuple(range(count)),
        np.ones(count, dtype=np.int64),
        label_counts=np.ones((count, 1), dtype=np.int64),
    )
    with patch("fedgs.sampling.fedgs.memory_limit", return_value=64 * 10**9):
        return FedGS(graph=Graph(structure="dense")).check(clients, cohort_limit=10)


@case("graph-private")
def _graph_private(folder: Path) -> object:
    count = 10_001
    clients = fedgs.Clients(tuple(range(count)), np.ones(count, dtype=np.int64))
    return FedGS(graph=Graph(similarity="private")).check(clients, cohort_limit=10)


@case("graph-trained")
def _graph_trained(folder: Path) -> object:
    count = 100_001
    clients = fedgs.Clients(range(count), np.ones(count, dtype=np.int64))
    FedGS(graph=Graph(similarity="update", start="seen")).check(clients, cohort_limit=10)
    return FedGS(graph=Graph(similarity="update")).check(clients, cohort_limit=10)


@case("graph-landmarks")
def _graph_landmarks(folder: Path) -> object:
    clients = fedgs.Clients((0, 1), np.ones(2, dtype=np.int64), features=np.ones((2, 300)))
    return FedGS(graph=Graph(structure="landmarks")).check(clients, cohort_limit=1)


@case("synthetic-memory")
def _synthetic_memory(folder: Path) -> object:
    with patch("fedgs.data.synthetic.memory_limit", return_value=16 * 10**9):
        return fedgs.Synthetic(clients=10**9).load()


@case("on-demand-memory")
def _on_demand_memory(folder: Path) -> object:
    federation = fedgs.Synthetic(clients=20_000, on_demand=True, test_clients=1).load()
    with patch("fedgs.data.on_demand.memory_limit", return_value=10**9):
        return holding(federation, np.arange(20_000))


@case("on-demand-all")
def _on_demand_all(folder: Path) -> object:
    return export(fedgs.Synthetic(clients=2, on_demand=True).load(), folder / "all.npz")


def training(name: str, model: object = "logistic", **settings: object) -> None:
    """Register a case of `compare` with settings of local training, in a process with 16 GB."""

    def run(folder: Path) -> object:
        owner = np.repeat(np.arange(3), [4, 4, 3])
        federation = fedgs.Federation.from_arrays(
            np.ones((11, 2)), owner % 2, client=owner, test=(np.ones((2, 2)), [0, 1])
        )
        with patch("fedgs.local.memory.memory_limit", return_value=16 * 10**9):
            return fedgs.compare(
                federation, methods=["uniform"], model=model, training={"rounds": 1, **settings}
            )

    case(name)(run)


def hidden() -> object:
    """A network with a hidden layer."""
    from torch import nn

    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))


def double() -> object:
    """A module in float64."""
    from torch import nn

    return nn.Linear(2, 2).double()


training("steps-memory", local_steps=10**12)
training("batch-memory", model=hidden, batch_size=10**9)
training("learning-rate", learning_rate=1e300)
training("model-float64", model=double)


@case("batch-of-one")
def _batch_of_one(folder: Path) -> object:
    owner = np.repeat(np.arange(3), [4, 4, 3])
    federation = fedgs.Federation.from_arrays(
        np.ones((11, 2)), owner % 2, client=owner, test=(np.ones((2, 2)), [0, 1])
    )
    return fedgs.compare(
        federation, methods=["uniform"], model=normalised, training={"rounds": 1, "batch_size": 2}
    )


def normalised() -> object:
    """A module with batch norm."""
    from torch import nn

    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


# --- availability
# --------------------------------------------------------------------------------------------------

csv("csv-value", "1,0,1\n0.5,1,1\n")
csv("csv-lengths", "1,0,1\n1,1\n")
csv("csv-rows", "1,0,1\n")
csv("csv-columns", "1,0\n0,1\n")


def mode(case_name: str, name: str = "markov", **settings: object) -> None:
    """Register a case of an availability mode for two clients without labels."""

    def check(folder: Path) -> object:
        chain = build("availability", {"name": name, **settings})
        return chain.check(fedgs.Clients(("a", "b"), np.array([2, 2])), 3)  # type: ignore[attr-defined]

    case(case_name)(check)


mode("markov-negative", correlation=-0.2)
mode("markov-values", rate=[0.9, 0.5, 0.1])
mode("markov-base", base="SLN")
mode("markov-redraw", empty_round="redraw")
mode("base-labels", "sine")
mode("base-memory", "staircase", base="markov")
mode("groups-period", "groups", groups=5, period=4)
mode("diurnal-ratio", "diurnal", ratio=4, correlation=0.99)


def trace(name: str, text: str, *, rounds: int = 1, clients: int = 2, **settings: object) -> None:
    """Register a case of a trace that is read from csv."""

    def check(folder: Path) -> object:
        (folder / "phones.csv").write_text(f"device,on,off\n{text}", encoding="utf-8")
        path = write_traces(convert(folder / "phones.csv"), folder / "phones.npz")
        names = ("a", *range(1, clients))
        sizes = np.ones(clients, dtype=np.int64)
        return Trace(path=path, **settings).check(fedgs.Clients(names, sizes), rounds)

    case(name)(check)


trace("trace-clients", "a,0,60\na,86400,86400\n", clients=25)
trace("trace-rounds", "a,0,86400\n", rounds=200, wrap="refuse")
trace("trace-days", "a,0,43200\n")
trace("trace-name", "a,0,86400\n", assign="name")
trace("trace-backwards", "a,60,0\n")


def profile(name: str, text: str, **settings: object) -> None:
    """Register a case of a profile of devices."""

    def check(folder: Path) -> object:
        (folder / "phones.csv").write_text(text, encoding="utf-8")
        settings_of_run = System(profile=str(folder / "phones.csv"), **settings)
        return devices_of(settings_of_run, fedgs.Clients(("a", "b"), np.array([3, 5])))

    case(name)(check)


profile("profile-number", "device,example_seconds,down,up\na,1,fast,1\n")
profile("profile-device", "device,example_seconds,down,up\n ,1,1,1\n")
profile("profile-digits", "device,example_seconds,down,up\na,1,1,1_0\n")
profile("profile-header", "device,ms\na,1\n")
profile("profile-name", "device,example_seconds,down,up\na,1,1,1\n", assign="name")


@case("trace-pickle")
def trace_pickle(folder: Path) -> object:
    """A call of a function."""
    (folder / "phones.pkl").write_bytes(b"cos\nsystem\n(S'ls'\ntR.")
    return convert(folder / "phones.pkl")
