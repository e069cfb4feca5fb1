"""What tables and figures call a run: a label for its method and a title for its data and availability.

Both name the settings in which runs differ and nothing else, so they depend on the set of runs that
is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedgs.report.run_view import Run

__all__ = ["base_name", "labelled", "labels_of"]

_NO_DIFFERENCE = {"training.rounds"}  # rounds extend a run
_COHORT = ("training.proportion", "training.cohort_limit")  # two ways to ask for M


def labelled(runs: Iterable[Run]) -> list[Run]:
    """The same runs with `label` and `group` filled in.

    A label is the configuration's own `label`, else the method's name ("fedprox" for `md` with a
    proximal term), and the settings in which runs of that name differ within some group.

    >>> alphas = [Run({"method": {"name": "fedgs", "alpha": alpha}}, ()) for alpha in (0.5, 2.0)]
    >>> [run.label for run in labelled(alphas)]
    ['fedgs alpha=0.5', 'fedgs alpha=2']
    """
    grouped = _grouped(list(runs))
    settings = [
        _settings(run, ("method", "training", "model", "evaluation", "deployment"))
        for run in grouped
    ]
    alike: dict[tuple[str, tuple[str, str]], list[Mapping[str, object]]] = {}
    for run, own in zip(grouped, settings, strict=True):
        alike.setdefault((_name(run), run.group), []).append(own)
    differing: dict[str, set[str]] = {}
    for (name, _), several in alike.items():
        differing.setdefault(name, set()).update(_differences(several))
    return _deployments_apart(
        [
            replace(run, label=_words(_name(run), own, differing[_name(run)]))
            for run, own in zip(grouped, settings, strict=True)
        ]
    )


def labels_of(configs: Iterable[Mapping[str, object]]) -> list[str]:
    """What tables will call runs with these resolved tables, each label once.

    >>> labels_of([{"method": {"name": "md"}, "seed": 0}, {"method": {"name": "md"}, "seed": 1}])
    ['md']
    """
    return list(dict.fromkeys(run.label for run in labelled(Run(tables, ()) for tables in configs)))


def _deployments_apart(runs: list[Run]) -> list[Run]:
    """The runs, deployments of one label and replicate told apart by their run ids: each is a run of its own, not another try."""
    alike: dict[object, set[str]] = {}
    for run in runs:
        alike.setdefault((run.group, run.label, repr(run.replicate)), set()).add(run.name)
    return [
        replace(run, label=f"{run.label} [{str(run.about.get('fingerprint') or run.name)[:8]}]")
        if run.is_deployment and len(alike[run.group, run.label, repr(run.replicate)]) > 1
        else run
        for run in runs
    ]


def _own_label(run: Run) -> str:
    return str(run.config.get("label") or "")


def _name(run: Run) -> str:
    return _own_label(run) or base_name(run)


def base_name(run: Run) -> str:
    """The method's name whatever it is labelled; "fedprox" for `md` with a proximal term."""
    name = str(run.table("method").get("name", "custom"))
    return "fedprox" if name == "md" and run.table("training").get("mu", 0) > 0 else name


def _grouped(runs: list[Run]) -> list[Run]:
    """The runs with their groups: two federations or two modes under one title are told apart by their settings."""
    data = [
        str(run.about.get("data_title") or run.table("data").get("name", "data")) for run in runs
    ]
    contents = [str(run.about.get("data_fingerprint", "")) for run in runs]
    modes = [_settings(run, ("availability",)) for run in runs]
    for mode in modes:
        mode.pop("availability.seed", None)
    data = _told_apart(data, [_settings(run, ("data",)) for run in runs], contents)
    titles = _told_apart(
        [_availability_title(run) for run in runs],
        modes,
        [repr(sorted(mode.items())) for mode in modes],
    )
    return [
        replace(run, group=group)
        for run, group in zip(runs, zip(data, titles, strict=True), strict=True)
    ]


def _availability_title(run: Run) -> str:
    table = run.table("availability")
    beta = table.get("beta")
    name = str(table.get("name", "availability"))
    if name == "deployment":  # the title of the data says it already
        return "nodes on line"
    return name if beta is None else f"{name} {beta:g}"


def _told_apart(
    titles: list[str], settings: Sequence[Mapping[str, object]], identities: list[str]
) -> list[str]:
    """Titles with the differing settings added where one title stands for several things."""
    things: dict[str, dict[str, Mapping[str, object]]] = {}
    for title, own, identity in zip(titles, settings, identities, strict=True):
        things.setdefault(title, {}).setdefault(identity, own)
    told = []
    for title, identity in zip(titles, identities, strict=True):
        same = things[title]
        differing = _differences(list(same.values()))
        words = _words(title, same[identity], differing)
        unique = len({_words(title, own, differing) for own in same.values()}) == len(same)
        told.append(words if unique else f"{words} [{identity[:8]}]")
    return told


def _settings(run: Run, parts: Sequence[str]) -> dict[str, object]:
    """Dotted settings of the parts; for the training, M in place of what M was asked for by, where M is known."""
    flat: dict[str, object] = {}
    for part in parts:
        flat.update(_flat(run.table(part), f"{part}."))
    flat = {key: value for key, value in flat.items() if key not in _NO_DIFFERENCE}
    if (
        "training" in parts and "cohort_limit" in run.about and not run.is_deployment
    ):  # there, M follows from who is connected
        flat = {key: value for key, value in flat.items() if key not in _COHORT}
        flat["training.cohort_limit"] = run.about["cohort_limit"]
    return flat


def _flat(table: Mapping[str, object], prefix: str) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = tuple(value) if isinstance(value, list) else value
    return flat


def _differences(settings: Sequence[Mapping[str, object]]) -> set[str]:
    """The keys whose values differ, without those that a `preset` of the same table decides."""
    keys = sorted({key for own in settings for key in own})
    differing = {key for key in keys if len({repr(own.get(key)) for own in settings}) > 1}
    for preset in [key for key in differing if key.rpartition(".")[2] == "preset"]:
        table = preset.rpartition(".")[0] + "."
        for key in [key for key in differing if key != preset and key.startswith(table)]:
            values = {(repr(own.get(preset)), repr(own.get(key))) for own in settings}
            if len(values) == len({first for first, _ in values}):
                differing.discard(key)
    return differing


def _words(name: str, own: Mapping[str, object], differing: set[str]) -> str:
    """The name and the differing settings: by the last part of their key, where that is enough."""
    last = [key.removesuffix(".name").rpartition(".")[2] for key in sorted(differing)]
    words = {
        key: word if last.count(word) == 1 else key
        for key, word in zip(sorted(differing), last, strict=True)
    }
    return " ".join(
        [name, *(f"{words[key]}={_value(own[key])}" for key in sorted(differing) if key in own)]
    )


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(_value, value)) if isinstance(value, tuple) else str(value)
