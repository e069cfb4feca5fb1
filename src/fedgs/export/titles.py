"""Names of runs in other tools: unique, and without characters that a path cannot have."""

from collections.abc import Sequence

from fedgs.report.files import file_name
from fedgs.report.run_view import Run

__all__ = ["titles_of"]


def titles_of(runs: Sequence[Run]) -> list[str]:
    """AVAILABILITY-LABEL-seedS-FINGERPRINT of each run; with the data in front if they differ.

    >>> run = Run({"run": {"fingerprint": "0123456789abcdef"}}, (), label="fedgs alpha=0.5",
    ...           group=("Synthetic", "LDF 0.7"))
    >>> titles_of([run])
    ['LDF_0.7-fedgs_alpha=0.5-seed0-01234567']
    """
    several = len({run.group[0] for run in runs}) > 1
    titles = []
    for run in runs:
        data, availability = run.group
        identity = str(run.about.get("fingerprint") or run.name)[:8]
        words = [data] * several + [availability, run.label, f"seed{run.seed}", identity]
        titles.append("-".join(file_name(word) for word in words if word))
    return [
        f"{title}-{number}" if titles.count(title) > 1 else title
        for number, title in enumerate(titles)
    ]
