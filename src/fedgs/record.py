"""The record of a round."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedgs.arrays import AnyArray
from fedgs.errors import OutputError
from fedgs.members import Members, StoredMembers

__all__ = ["FindAvailable", "Record", "first_rounds"]

FindAvailable = Callable[[int, float | None, str], tuple[Sequence[str | int], AnyArray]]
"""Returns the keys of all clients and the bits of A_t, from round, clock and digest."""

_LEFT_OUT = (
    "stopped",
    "test_metrics",
    "valid_metrics",
    "per_client",
)  # fields that are written only where they have a value
_FIGURES = ("test_loss", "test_accuracy", "valid_loss")


def _as_json(value: object) -> object:
    if isinstance(value, Members):
        return {"digest": value.digest}
    raise TypeError(f"a record holds numbers, words and lists of them, got {type(value).__name__}")


_encode = json.JSONEncoder(separators=(",", ":"), default=_as_json).encode


_OF_TIME = frozenset(("clock", "seconds", "fates", "worked", "traffic", "ended"))


@dataclass(frozen=True)
class Record:
    """Round t: the available clients, the cohort, and the metrics of theta^t before the update.

    Attributes:
        round: t; the last record, t = T, holds the metrics of the final model only.
        available, cohort: the clients' own keys, or None in the last record. Of more than 1000
            clients, `available` is a `Members`, of which a line holds the digest.
        num_available: size of A_t.
        draws: how often each client of the cohort was drawn, for samplers that draw with
            replacement.
        weights: aggregation weights of the cohort, sum 1.
        selection_status: the solver's status; "skipped" where no client was available, "empty"
            where the sampler selected none of the available ones; None where no solver ran.
        selection_objective, selection_upper_bound: the solver's figures.
        test_loss, test_accuracy, valid_loss: of theta^t, or None where the round was not evaluated.
            The accuracy is also None where no answer is right or wrong, as in regression.
        stopped: in the last record of a run that ended before round T: "target" or "patience", see
            `fedgs.stopping`. It is left out of `rounds.jsonl` where it is None.
        test_metrics: name -> value of the metrics of `evaluation.metrics`; the field is left out
            of `rounds.jsonl` where it is None.
        valid_metrics: the same of all examples of the validation parts together.
        per_client: figures of theta^t on the examples of each client, in the order of the run's
            clients, None for clients without examples: "loss", and "accuracy" where there is one;
            "part" says which examples, "test" or "validation"; "sample" is there with
            `evaluation.sample`, whose clients alone have figures. None, and left out of
            `rounds.jsonl`, in rounds without `evaluation.per_client`.
        clock: seconds of the run at the beginning of the round. It and the following are None, and
            left out of files, where a run has no clock (no table `[system]`). Deployments have a
            real one.
        seconds: from the beginning of the round to its end.
        fates: what became of each client of the cohort: "answered", "late", "gone" or "failed".
            Clients that did not answer have weight 0.
        worked: seconds that each client of the cohort worked in the round.
        traffic: bytes of the models sent to the cohort and of the answers.
        ended: what ended the round: "target" (enough answers), "deadline" or "nobody" (no client
            was working any more); None in a round without a cohort.
    """

    round: int
    available: Sequence[str | int] | None = None
    num_available: int | None = None
    cohort: Sequence[str | int] | None = None
    draws: Sequence[int] | None = None
    weights: Sequence[float] | None = None
    selection_status: str | None = None
    selection_objective: float | None = None
    selection_upper_bound: float | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    valid_loss: float | None = None
    stopped: str | None = None
    test_metrics: Mapping[str, float] | None = None
    valid_metrics: Mapping[str, float] | None = None
    per_client: Mapping[str, Any] | None = None
    clock: float | None = None
    seconds: float | None = None
    fates: Sequence[str] | None = None
    worked: Sequence[float] | None = None
    traffic: int | None = None
    ended: str | None = None

    def value(self, figure: str) -> float | None:
        """A figure of the model by its name; None where the record does not have it.

        Args:
            figure: "test_loss", "test_accuracy", "valid_loss", or "test_" or "valid_" and the name
                of a metric.

        >>> Record(0, test_loss=0.5, test_metrics={"auc": 0.9}).value("test_auc")
        0.9
        """
        if figure in _FIGURES:
            own: float | None = getattr(self, figure)
            return own
        if figure.startswith("valid_"):
            return (self.valid_metrics or {}).get(figure.removeprefix("valid_"))
        return (self.test_metrics or {}).get(figure.removeprefix("test_"))

    def to_json(self) -> str:
        """One line without the newline.

        >>> Record.from_json(Record(round=3, cohort=["a"]).to_json()).cohort
        ['a']
        """
        fields = self.__dict__
        if any(fields[name] is None for name in _LEFT_OUT):
            absent = {name for name in _LEFT_OUT if fields[name] is None}
            fields = {name: value for name, value in fields.items() if name not in absent}
        if self.clock is None:
            fields = {name: value for name, value in fields.items() if name not in _OF_TIME}
        return _encode(fields)

    @staticmethod
    def from_json(line: str) -> "Record":
        """The record of one line.

        Raises:
            OutputError: the line is not a record.
        """
        try:
            return Record.from_table(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise OutputError(f"not a record of a round: {line[:80]!r}") from None

    @staticmethod
    def from_table(table: dict[str, Any], find: FindAvailable | None = None) -> "Record":
        """The record of a parsed line.

        Args:
            table: key -> value.
            find: finds the available clients where the line holds their digest.

        Raises:
            TypeError: the table is not a record.
        """
        available = table.get("available")
        if type(available) is dict:
            digest, number = available["digest"], table["num_available"]
            if type(digest) is not str or type(number) is not int:
                raise TypeError(available)
            found = None if find is None else partial(find, table["round"], table.get("clock"))
            table["available"] = StoredMembers(digest, number, found)
        return Record(**table)


def first_rounds(records: Sequence[Record], rounds: int) -> list[Record]:
    """The records of a run of `rounds` rounds, from those of a run of the same or more rounds.

    Args:
        records: records 0, 1, ..., possibly of fewer rounds.
        rounds: T >= 0.

    >>> records = [Record(0, cohort=["a"]), Record(1, cohort=["b"], test_loss=0.5), Record(2)]
    >>> shorter = first_rounds(records, 1)
    >>> len(shorter), shorter[1].test_loss, shorter[1].cohort is None
    (2, 0.5, True)
    """
    if len(records) <= rounds:
        return list(records)
    last = records[rounds]
    final = Record(
        rounds,
        test_loss=last.test_loss,
        test_accuracy=last.test_accuracy,
        valid_loss=last.valid_loss,
        test_metrics=last.test_metrics,
        valid_metrics=last.valid_metrics,
        per_client=last.per_client,
        clock=last.clock,
    )
    return [*records[:rounds], final]
