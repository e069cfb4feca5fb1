"""Runs with equal label and replicate: the latest is shown, and a sentence names the others."""

from collections.abc import Sequence

from fedgs.plurals import noun
from fedgs.report.run_view import Run

__all__ = ["latest"]


def latest(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """One run of each group, label and replicate, and a sentence for each label with others.

    Runs with equal label and replicate (seeds and federation) but different fingerprints come from
    an earlier version, or from other code of a plug-in. The run that was started last is shown;
    where that is not known, the one with the most rounds. A failed run never replaces one that did
    not fail.

    Args:
        runs: labelled.

    Returns:
        The runs that are shown, in their order; the sentences, sorted by label.

    >>> old = {"method": {"name": "md"}, "run": {"fingerprint": "a", "started": "2024-05-01"}}
    >>> new = {"method": {"name": "md"}, "run": {"fingerprint": "b", "started": "2024-05-02"}}
    >>> runs, sentences = latest([Run(old, (), label="md"), Run(new, (), label="md")])
    >>> [run.name for run in runs]
    ['b']
    >>> sentences[0].removeprefix("md: 1 run is left out, since a run that was started later has ")
    'the same label and seed: a (shown: b).'
    """
    alike: dict[object, list[Run]] = {}
    for run in runs:
        alike.setdefault((run.group, run.label, repr(run.replicate)), []).append(run)
    shown: set[int] = set()
    left_out: dict[str, list[tuple[Run, Run]]] = {}
    for copies in alike.values():
        last = max(copies, key=_order)
        shown.add(id(last))
        for run in copies:
            if run is not last:
                left_out.setdefault(run.label, []).append((run, last))
    sentences = [_sentence(label, pairs) for label, pairs in sorted(left_out.items())]
    return [run for run in runs if id(run) in shown], sentences


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
    """The name of the run's folder, or its path if the other run lies in another folder."""
    is_clear = run.path is None or other.path is None or run.path.parent == other.path.parent
    return (run.name if is_clear else str(run.path)) + ("" if run.failure is None else ", failed")
