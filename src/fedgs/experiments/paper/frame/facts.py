"""The facts that the page lists above an experiment's tables: data, settings, hardware and time."""

from collections.abc import Mapping, Sequence

from fedgs.experiments.paper.frame.experiment import Experiment, ExperimentRecords
from fedgs.experiments.paper.frame.store import Manifest
from fedgs.report.run_view import Run

__all__ = ["facts_of", "round_seconds"]


def facts_of(
    experiment: Experiment, manifest: Manifest, records: ExperimentRecords
) -> dict[str, str]:
    """Name of a fact -> its text, in the order of the page; "" for a fact that does not apply."""
    runs = [loaded.run for loaded in records.runs]
    models = dict.fromkeys(str(run.table("model").get("name", "custom")) for run in runs)
    return {
        "Data": _data(records),
        "Model": ", ".join(models),
        "Hyper-parameters": _hyper_parameters(runs),
        "Seeds": ", ".join(map(str, manifest.request.seeds)) if "seeds" in experiment.takes else "",
        "Hardware": _hardware(manifest.machine),
        "Time": _time(manifest.seconds) + _of_rounds(manifest.round_seconds, runs),
        "Command": f"`{manifest.command}`" if manifest.command else "",
        "Left out": _left_out(manifest, records),
    }


def _data(records: ExperimentRecords) -> str:
    """Titles, clients and content of the federations."""
    titles: dict[str, str] = {}
    for loaded in records.runs:
        about = loaded.run.about
        titles[loaded.data] = _title(
            about.get("data_title"), about.get("num_clients"), about.get("data_fingerprint")
        )
    for key, result in records.computed.items():
        if "data_title" in result.about:
            titles[key] = _title(
                result.data_title, result.num_clients, result.about["data_fingerprint"]
            )
    return "; ".join(dict.fromkeys(titles.values()))


def _title(title: object, clients: object, content: object) -> str:
    return f"{title}, {clients} clients (content {str(content)[:12]})"


def _hyper_parameters(runs: Sequence[Run]) -> str:
    """Every setting once, with all of its values if runs differ."""
    values: dict[str, dict[str, None]] = {}
    for run in runs:
        training, about = run.table("training"), run.about
        settings = {
            "T": training.get("rounds"),
            "M": about.get("cohort_limit"),
            "E": training.get("local_steps"),
            "B": training.get("batch_size"),
            "eta": f"{training.get('learning_rate')} · {training.get('decay')}^t",
            "mu": training.get("mu", 0),
            "evaluated every": run.table("evaluation").get("every"),
        }
        for name, value in settings.items():
            values.setdefault(name, {})[
                f"{value:g}" if isinstance(value, float) else str(value)
            ] = None
    if list(values.get("mu", {})) == ["0"]:
        del values["mu"]
    return ", ".join(
        f"{name} {'' if ' ' in name else '= '}{' or '.join(several)}"
        for name, several in values.items()
    )


def _hardware(machine: Mapping[str, object]) -> str:
    """A machine as the manifest has it, in words.

    >>> _hardware({"processor": "x", "cores": 2, "memory_gib": 8, "gpu": "y", "versions": {"a": 1}})
    'x, 2 cores, 8 GiB, y; a 1'
    """
    words = [f"{machine.get('processor')}, {machine.get('cores')} cores"]
    if machine.get("memory_gib"):
        words.append(f"{machine['memory_gib']} GiB")
    if machine.get("gpu"):
        words.append(str(machine["gpu"]))
    numbers = machine.get("versions")
    versions = (
        ", ".join(f"{name} {number}" for name, number in numbers.items())
        if isinstance(numbers, Mapping)
        else ""
    )
    return f"{', '.join(words)}; {versions}"


def _time(seconds: float) -> str:
    """A wall time in words.

    >>> _time(0.2), _time(42.4), _time(300), _time(7500)
    ('under a second', '42 s', '5 min', '2 h 05 min')
    """
    if seconds < 1:
        return "under a second"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _of_rounds(stored: float | None, runs: Sequence[Run]) -> str:
    """The time of the rounds of all runs, by their timings or else as it is stored.

    The command's time leaves out runs that were finished before.
    """
    seconds = round_seconds(runs) or stored
    if seconds is None:
        return ""
    return f" from start to tables; the rounds of all runs, added up: {_time(seconds)}"


def round_seconds(runs: Sequence[Run]) -> float | None:
    """Wall time of the rounds of all runs, added up; None where a run has no timings.

    >>> round_seconds([Run({}, (), timings=[{"round": 0, "train": 2.0}, {"round": 1, "train": 1}])])
    3.0
    """
    if not runs or not all(run.timings for run in runs):
        return None
    return sum(
        sum(timing.values()) - timing.get("round", 0) for run in runs for timing in run.timings
    )


def _left_out(manifest: Manifest, records: ExperimentRecords) -> str:
    """Runs that are missing, failed or unfinished, in words."""
    failed = sum(loaded.run.failure is not None for loaded in records.runs)
    unfinished = sum(
        loaded.run.failure is None and not loaded.run.finished for loaded in records.runs
    )
    missing = len(manifest.runs) - len(records.runs)
    counts = (
        (missing, "missing"),
        (failed, "failed"),
        (unfinished, "unfinished: their figures are those so far"),
    )
    words = [f"{count} of {len(manifest.runs)} runs {word}" for count, word in counts if count]
    return "; ".join(words)
