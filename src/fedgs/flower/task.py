"""What the server tells a client about the state that an aggregation keeps for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import ConfigRecord

from fedgs.errors import ConfigError

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """An aggregation's part of a training request, or of a model to keep.

    Attributes:
        run: id of the deployment.
        round: t.
        version: the round whose state the server counts on, -1 for none.
        aggregation: its name; empty with a model to keep.
        names: the parameters of the model.
        metrics: numbers > 0 that the reply must report.
        numbers: settings of the aggregation.
        tells_start: whether the reply is to hold the model that the client started from.

    >>> task = Task("run", 4, -1, "gossip", ("w",), numbers={"rate": 0.5})
    >>> Task.read(task.record()) == task
    True
    """

    run: str
    round: int
    version: int
    aggregation: str = ""
    names: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    tells_start: bool = False

    def record(self) -> ConfigRecord:
        """The task as Flower sends it."""
        record = ConfigRecord({"run": self.run, "round": self.round, "version": self.version})
        if self.aggregation:
            record["aggregation"] = self.aggregation
            record["names"], record["metrics"] = list(self.names), list(self.metrics)
            record["number-names"] = list(self.numbers)
            record["numbers"] = [float(number) for number in self.numbers.values()]
            if self.tells_start:
                record["tells-start"] = True
        return record

    @staticmethod
    def read(record: Mapping[str, object]) -> "Task":
        """The task in a record.

        Raises:
            ConfigError: the record is not one that `record` makes.
        """
        run, round, version = (record.get(name) for name in ("run", "round", "version"))
        if not (isinstance(run, str) and isinstance(round, int) and isinstance(version, int)):
            raise ConfigError(
                "a request about the state of an aggregation must name run, round and version, "
                f"got {sorted(record)}"
            )
        names, metrics, kinds = (
            tuple(map(str, _listed(record, name))) for name in ("names", "metrics", "number-names")
        )
        numbers = dict(zip(kinds, map(float, _listed(record, "numbers")), strict=True))
        return Task(
            run,
            round,
            version,
            str(record.get("aggregation", "")),
            names,
            metrics,
            numbers,
            bool(record.get("tells-start", False)),
        )


def _listed(record: Mapping[str, object], name: str) -> list[str]:
    value = record.get(name, [])
    return value if isinstance(value, list) else []
