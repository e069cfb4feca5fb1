"""What each client of a federation holds, how skewed that is, and what it does to the average."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedgs.arrays import FloatArray, FloatMatrix, IntArray
from fedgs.data.duplicates import Duplicates, duplicates
from fedgs.data.federation import Federation
from fedgs.data.gamma import expected_weights, gamma
from fedgs.data.targets import Task
from fedgs.plurals import counted

__all__ = ["Description", "Skew", "describe", "gini", "skew"]


@dataclass(frozen=True)
class Skew:
    """How unlike the clients are.

    Attributes:
        size_gini: Gini coefficient of the training sizes, 0 (equal) to below 1.
        label_entropy: mean over clients of the entropy of their labels in nats, 0 to ln C.
        global_entropy: entropy of the labels of all clients together.
        label_distance: mean over clients of the total variation distance to the global labels, 0 to
            1. (The earth mover's distance between labels, where any two labels are equally far
            apart, is the same number.)
        max_label_distance: the largest of them.
        labels_per_client: mean number of different labels.
    """

    size_gini: float
    label_entropy: float
    global_entropy: float
    label_distance: float
    max_label_distance: float
    labels_per_client: float


@dataclass(frozen=True, eq=False)
class Description:
    """Everything `fedgs data describe` shows; `lines` is its text, `table` its JSON form.

    Attributes:
        name: of the federation.
        fingerprint: of the federation.
        names: of the N clients.
        example_shape: (d,) or (channels, height, width).
        example_type: the name of the examples' dtype.
        data_sizes: (N,) training examples by client.
        validation_sizes: (N,) validation examples by client.
        test_size: examples of the server's test set.
        label_counts: (N, C) training examples by client and label, or by group; None where targets
            are no classes and there are no groups.
        skew: how unlike the clients are in labels or groups; None where there are neither.
        cohort_size: M, the cohorts that `gamma` and `bias` are for.
        gamma: (N,) bias factors (see `data.gamma`).
        bias: (N,) expected weight over n_k/n (see `data.expected_weights`).
        facts: how the federation was made: partition, concentration, shift, clients left out.
        task: what is predicted, see `Federation.task`.
        num_targets: C, or q for targets that are numbers.
        duplicates: equal examples; None: not counted.
    """

    name: str
    fingerprint: str
    names: Sequence[str | int]
    example_shape: tuple[int, ...]
    example_type: str
    data_sizes: IntArray
    validation_sizes: IntArray
    test_size: int
    label_counts: IntArray | None
    skew: Skew | None
    cohort_size: int
    gamma: FloatArray
    bias: FloatArray
    facts: Mapping[str, object] = field(default_factory=dict)
    task: Task = "classes"
    num_targets: int = 1
    duplicates: Duplicates | None = None

    def table(self) -> dict[str, object]:
        """A JSON-ready table of all of it."""
        skewed = {"size_gini": gini(self.data_sizes)} if self.skew is None else vars(self.skew)
        counts = self.label_counts
        key = "labels" if self.task == "classes" else "groups"
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "example_shape": list(self.example_shape),
            "example_type": self.example_type,
            "test_size": self.test_size,
            "skew": dict(skewed),
            "cohort_size": self.cohort_size,
            **({} if self.duplicates is None else {"duplicates": dict(vars(self.duplicates))}),
            "facts": dict(self.facts),
            **({} if self.task == "classes" else {"task": self.task, "targets": self.num_targets}),
            "clients": [
                {
                    "name": name,
                    "train": int(self.data_sizes[k]),
                    "validation": int(self.validation_sizes[k]),
                    **({} if counts is None else {key: counts[k].tolist()}),
                    "gamma": float(self.gamma[k]),
                    "bias": float(self.bias[k]),
                }
                for k, name in enumerate(self.names)
            ],
        }

    def lines(self, *, max_clients: int | None = 20) -> list[str]:
        """The description as text: totals, skew, bias, and a table of clients and labels.

        Args:
            max_clients: the most clients in the table; None: all.
        """
        sizes = self.data_sizes
        shown = len(self.names) if max_clients is None else min(max_clients, len(self.names))
        shape = "x".join(str(side) for side in self.example_shape)
        lines = [
            f"{self.name}: {counted(len(self.names), 'client')}, {sizes.sum()} training, "
            f"{self.validation_sizes.sum()} validation and {self.test_size} test examples "
            f"({shape} {self.example_type}), {_targets(self)}",
            f"sizes           {sizes.min()} to {sizes.max()}, median {np.median(sizes):g}, "
            f"Gini {gini(sizes):.3f}",
            *_skew_lines(self),
            f"weight bias     {self.bias.min():.3f} to {self.bias.max():.3f} times n_k/n "
            f"in uniform cohorts of {self.cohort_size} "
            f"(gamma {self.gamma.min():.3f} to {self.gamma.max():.3f})",
            *([] if self.duplicates is None else [self.duplicates.line()]),
            *_fact_lines(self.facts),
            f"fingerprint     {self.fingerprint}",
            "",
        ]
        return lines + _client_lines(self, shown)


def describe(federation: Federation, *, cohort_size: int | None = None) -> Description:
    """Sizes, labels by client, skew measures, aggregation bias and fingerprint of a federation.

    Args:
        federation: any.
        cohort_size: M for the aggregation bias; None: a fifth of the clients, at least one.

    Raises:
        DataError: M not in 1..N.

    >>> from fedgs.data.synthetic import Synthetic
    >>> describe(Synthetic(clients=4).load()).lines()[0]
    'Synthetic(0.5, 0.5): 4 clients, ... test examples (60 float32), 10 labels'
    """
    clients = federation.clients
    size = max(1, len(clients) // 5) if cohort_size is None else cohort_size
    counts = federation.label_counts
    validation = federation.validation
    total = int(clients.data_sizes.sum())
    return Description(
        name=federation.name,
        fingerprint=federation.fingerprint,
        names=clients.names,
        example_shape=federation.example_shape,
        example_type=str(federation.train.x.dtype),
        data_sizes=clients.data_sizes,
        validation_sizes=np.zeros(len(clients), dtype=np.int64)
        if validation is None
        else np.diff(validation.offsets),
        test_size=len(federation.test),
        label_counts=counts,
        skew=None if counts is None else skew(counts),
        cohort_size=size,
        gamma=gamma(clients.data_sizes, size),
        bias=expected_weights(clients.data_sizes, size) * total / clients.data_sizes,
        facts=federation.facts,
        task=federation.task,
        num_targets=federation.num_labels,
        duplicates=duplicates(federation) if federation.train.held else None,
    )


def skew(label_counts: IntArray) -> Skew:
    """Skew measures of (N, C) label counts, every client with at least one example.

    >>> skew(np.array([[2, 0], [0, 2]])).label_distance
    0.5
    """
    sizes = label_counts.sum(axis=1)
    shares = label_counts / sizes[:, None]  # (N, C)
    overall = label_counts.sum(axis=0) / sizes.sum()  # (C,)
    distance = np.abs(shares - overall).sum(axis=1) / 2
    return Skew(
        size_gini=gini(sizes),
        label_entropy=float(_entropy(shares).mean()),
        global_entropy=float(_entropy(overall[None])[0]),
        label_distance=float(distance.mean()),
        max_label_distance=float(distance.max()),
        labels_per_client=float((label_counts > 0).sum(axis=1).mean()),
    )


def gini(sizes: IntArray) -> float:
    """Gini coefficient: half the mean absolute difference of two sizes over their mean.

    >>> gini(np.array([1, 1, 1])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    ordered = np.sort(sizes).astype(np.float64)
    count = len(ordered)
    rank = 2 * np.arange(1, count + 1) - count - 1
    return float((rank * ordered).sum() / (count * ordered.sum()))


def _entropy(shares: FloatMatrix) -> FloatArray:
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1))


def _targets(description: Description) -> str:
    """What is predicted, in words."""
    if description.task == "classes":
        return counted(description.num_targets, "label")
    unit = "token" if description.task == "sequence" else "target"
    words = f"task {description.task} with {counted(description.num_targets, unit)}"
    counts = description.label_counts
    return words if counts is None else f"{words}, {counted(counts.shape[1], 'group')}"


def _skew_lines(description: Description) -> list[str]:
    measures = description.skew
    if measures is None:
        return [
            "labels          none, since targets are no classes; data.groups gives groups instead"
        ]
    word = "label" if description.task == "classes" else "group"
    return [
        f"{word}s          {measures.labels_per_client:.1f} a client, "
        f"mean entropy {measures.label_entropy:.3f} of {measures.global_entropy:.3f} nats",
        f"{word} distance  mean {measures.label_distance:.3f}, "
        f"largest {measures.max_label_distance:.3f} (total variation to the global {word}s)",
    ]


def _fact_lines(facts: Mapping[str, Any]) -> list[str]:
    lines = []
    if "partition" in facts:
        settings = ", ".join(
            f"{key} {value}" for key, value in facts["partition"].items() if key != "name"
        )
        lines.append(
            f"partition       {facts['partition']['name']}{f' ({settings})' if settings else ''}"
        )
    if "concentration" in facts:
        lines.append(f"Dirichlet       {_concentration(facts['concentration'])}")
    if "shift" in facts:
        shift = np.array(facts["shift"])
        lines.append(
            f"label shift     mean {shift.mean():.4f}, largest {shift.max():.4f} "
            "(total variation to the drawn p_k)"
        )
    if facts.get("moved"):
        lines.append(
            f"moved           {facts['moved']} examples, so that every client has the minimum"
        )
    if "sizes" in facts:
        lines.append(
            f"sizes           Dirichlet({facts['sizes']['concentration']:.4g}, ...) over clients"
        )
    if facts.get("unassigned"):
        lines.append(f"unassigned      {facts['unassigned']} examples belong to no client")
    if "left_out" in facts:
        lines.append(f"left out        {_listed(facts['left_out'])}: no training example")
    return lines


def _concentration(facts: Mapping[str, Any]) -> str:
    if "of_each_class" in facts:
        values = sorted(facts["of_each_class"].values())
        span = (
            f"{values[0]:.4g}"
            if values[-1] - values[0] < 1e-9
            else f"{values[0]:.4g} to {values[-1]:.4g}"
        )
        return f"over {facts['over']}: total {facts['total']:.4g}, {span} a class"
    return (
        f"over {facts['over']}: {facts['of_each_client']:.4g} a client, "
        f"total {facts['total']:.4g}; about the same as a total of "
        f"{facts['implied_over_classes']:.4g} over classes"
    )


def _listed(names: Sequence[str | int], most: int = 10) -> str:
    text = ", ".join(str(name) for name in names[:most])
    return f"{counted(len(names), 'client')} ({text}{', ...' if len(names) > most else ''})"


def _label_names(description: Description, count: int) -> list[str]:
    """Names of the classes, where labels were texts, else their numbers."""
    names = description.facts.get("label_names")
    known = [str(name) for name in names] if isinstance(names, Sequence) else []
    return [*known, *(str(label) for label in range(len(known), count))]


def _client_lines(description: Description, shown: int) -> list[str]:
    counts = description.label_counts
    if counts is None:
        counts = np.zeros((len(description.names), 0), dtype=np.int64)
    letter = "y" if description.task == "classes" else "g"
    labels = [f"{letter}={name}" for name in _label_names(description, counts.shape[1])]
    header = ["client", "train", "valid", "gamma", "bias", *labels]
    rows = [
        [
            str(description.names[k]),
            str(description.data_sizes[k]),
            str(description.validation_sizes[k]),
            f"{description.gamma[k]:.3f}",
            f"{description.bias[k]:.3f}",
            *(str(count) if count else "." for count in counts[k].tolist()),
        ]
        for k in range(shown)
    ]
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [header, *rows]
    ]
    rest = len(description.names) - shown
    more = [f"... and {rest} more clients"] if rest else []
    legend = [
        "gamma: the paper's factor of a client's weight in the average over uniform cohorts of "
        f"{description.cohort_size}; bias: the exact factor. 1 is unbiased.",
    ]
    if counts.shape[1]:
        legend.append(
            "y=LABEL: training examples with the label."
            if letter == "y"
            else "g=GROUP: training examples of the group."
        )
    return [*lines, *more, "", *legend]
