"""Runs with equal label and replicate: one of them is shown, and a sentence names the others."""

from collections.abc import Sequence

from fedgs.plurals import noun
from fedgs.report.run_view import Run

__all__ = ["latest"]


def latest(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """One run of each group, label and replicate (seeds and federation), and one sentence a label on those left out.

    Equal label and replicate with another identity: an earlier version or other code of a plug-in
    made one of them. The run that was started last is kept; where that is not known, the one with
    the most rounds. A failed run never replaces one that did not fail.

    Args:
        runs: labelled.

    >>> old, new = ({"method": {"name": "md"}, "run": {"fingerprint": f, "started": f"2024-05-0{f}"}} for f in (1, 2))
    >>> kept, notes = latest([Run(old, (), label="md"), Run(new, (), label="md")])
    >>> kept[0].name, notes
    ('2', ['md: 1 run is left out, since a run that was started later has the same label and seed: 1 (shown: 2).'])
    """
    alike: dict[object, list[Run]] = {}
    for run in runs:
        alike.setdefault((run.group, run.label, repr(run.replicate)), []).append(run)
    chosen = {id(max(several, key=_order)) for several in alike.values()}
    left_out: dict[str, list[tuple[Run, Run]]] = {}
    for several in alike.values():
        shown = next(run for run in several if id(run) in chosen)
        for run in several:
            if run is not shown:
                left_out.setdefault(run.label, []).append((run, shown))
    return [run for run in runs if id(run) in chosen], [
        _sentence(label, pairs) for label, pairs in sorted(left_out.items())
    ]


def _order(run: Run) -> tuple[bool, str, int, str]:
    return (run.failure is None, _started(run), run.rounds_done, run.name)


def _started(run: Run) -> str:
    return str(run.about.get("started") or "")


def _sentence(label: str, pairs: Sequence[tuple[Run, Run]]) -> str:
    pairs = sorted(pairs, key=lambda pair: (pair[1].name, pair[0].name))
    later = all(run.failure is None and _started(run) < _started(shown) for run, shown in pairs)
    other = "a run that was started later" if later else "another run"
    names = ", ".join(f"{_where(run, shown)} (shown: {_where(shown, run)})" for run, shown in pairs)
    left = f"{len(pairs)} {noun(len(pairs), 'run is', 'runs are')} left out"
    return f"{label}: {left}, since {other} has the same label and seed: {names}."


def _where(run: Run, other: Run) -> str:
    """The name of the run's folder, or its path where the two lie in different folders."""
    alone = run.path is None or other.path is None or run.path.parent == other.path.parent
    return (run.name if alone else str(run.path)) + ("" if run.failure is None else ", failed")
