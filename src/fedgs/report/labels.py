"""Names of runs in tables and figures: a label for the method, titles for data and availability.

Both name only the settings in which runs differ, so they depend on the set of runs that is shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedgs.availability import Availability
from fedgs.errors import ConfigError
from fedgs.registry import Variant, preset_names, variant_class
from fedgs.report.run_view import Run
from fedgs.system_settings import System

__all__ = ["base_name", "conditions", "flattened", "labelled", "labels_of"]

Settings = Mapping[str, object]  # dotted key -> value

_NO_DIFFERENCE = {"training.rounds"}  # rounds extend a run
_COHORT = ("training.proportion", "training.cohort_limit")  # two settings that decide M


def labelled(runs: Iterable[Run]) -> list[Run]:
    """The same runs with `label` and `group` filled in.

    A label is the configuration's own `label`, else the method's name ("fedprox" for `md` with a
    proximal term), followed by the settings in which runs of that name differ within some group.
    Settings that only some variants have are left out where they are defaults.

    >>> alphas = [Run({"method": {"name": "fedgs", "alpha": alpha}}, ()) for alpha in (0.5, 2.0)]
    >>> [run.label for run in labelled(alphas)]
    ['fedgs alpha=0.5', 'fedgs alpha=2']
    """
    grouped = _grouped(list(runs))
    parts = ("method", "aggregation", "training", "model", "evaluation", "stopping", "deployment")
    settings = [_settings(run, parts) for run in grouped]
    by_name_and_group: dict[tuple[str, tuple[str, str]], list[Settings]] = {}
    for run, run_settings in zip(grouped, settings, strict=True):
        by_name_and_group.setdefault((_name(run), run.group), []).append(run_settings)
    differing: dict[str, set[str]] = {}
    disputed: dict[str, set[tuple[str, ...]]] = {}
    for (name, _), alike in by_name_and_group.items():
        differing.setdefault(name, set()).update(_differences(alike))
        disputed.setdefault(name, set()).update(_disputed(alike))
    labels = []
    for run, run_settings in zip(grouped, settings, strict=True):
        name = _name(run)
        shown = {
            key: value
            for key, value in run_settings.items()
            if _place(key, run_settings) in disputed[name] or not _is_default(key, run_settings)
        }
        labels.append(_words(name, shown, differing[name]))
    return _with_run_ids(
        [replace(run, label=label) for run, label in zip(grouped, labels, strict=True)]
    )


def labels_of(configs: Iterable[Mapping[str, object]]) -> list[str]:
    """The labels that tables will show for runs with these resolved tables, each once.

    >>> labels_of([{"method": {"name": "md"}, "seed": 0}, {"method": {"name": "md"}, "seed": 1}])
    ['md']
    """
    return list(dict.fromkeys(run.label for run in labelled(Run(tables, ()) for tables in configs)))


def _with_run_ids(runs: list[Run]) -> list[Run]:
    """The runs, with the run id in the labels of deployments that share label and replicate.

    Every deployment is a run of its own, not a repetition of another one.
    """
    names: dict[object, set[str]] = {}
    for run in runs:
        names.setdefault((run.group, run.label, repr(run.replicate)), set()).add(run.name)
    return [
        replace(run, label=f"{run.label} [{str(run.about.get('fingerprint') or run.name)[:8]}]")
        if run.is_deployment and len(names[run.group, run.label, repr(run.replicate)]) > 1
        else run
        for run in runs
    ]


def _name(run: Run) -> str:
    return str(run.config.get("label") or "") or base_name(run)


def base_name(run: Run) -> str:
    """The method's name; its label only where that is the name of a preset.

    It is "fedprox" for `md` with a proximal term.
    """
    label = str(run.config.get("label") or "")
    if label in preset_names("method"):
        return label
    name = str(run.table("method").get("name", "custom"))
    return "fedprox" if name == "md" and run.table("training").get("mu", 0) > 0 else name


def conditions(run: Run) -> str:
    """What a run was given beside its method: equal texts are equal conditions.

    The proximal term is a part of the method, as in FedProx.
    """
    settings = _settings(run, ("training", "model", "evaluation", "stopping", "deployment"))
    return repr(sorted((key, value) for key, value in settings.items() if key != "training.mu"))


def _grouped(runs: list[Run]) -> list[Run]:
    """The runs with their groups.

    Settings are added to the title of two federations, or of two modes, that share it.
    """
    data = _unique_titles(
        [str(run.about.get("data_title") or run.table("data").get("name", "data")) for run in runs],
        settings=[_settings(run, ("data",)) for run in runs],
        identities=[str(run.about.get("data_fingerprint", "")) for run in runs],
    )
    modes = _modes(runs)
    availability = _unique_titles(
        [_availability_title(run) for run in runs],
        settings=modes,
        identities=[repr(sorted(mode.items())) for mode in modes],
    )
    groups = zip(data, availability, strict=True)
    return [replace(run, group=group) for run, group in zip(runs, groups, strict=True)]


def _modes(runs: Sequence[Run]) -> list[Settings]:
    """The settings of availability and time of each run, without seeds.

    Runs with a table `[system]` have `system="on"`, and of its settings those that are not the
    defaults, or in which these runs differ.
    """
    modes = []
    for run in runs:
        mode = _settings(run, ("availability", "system"))
        mode.pop("availability.seed", None)
        mode.pop("system.seed", None)
        modes.append(mode | ({"system": "on"} if run.table("system") else {}))
    disputed = _differences([mode for mode in modes if "system" in mode])
    return [
        {key: value for key, value in mode.items() if key in disputed or not _of_clock(key, value)}
        for mode in modes
    ]


def _of_clock(key: str, value: object) -> bool:
    """Whether a setting is a default of the table `[system]`."""
    field = System.model_fields.get(key.removeprefix("system."))
    return key.startswith("system.") and field is not None and bool(field.default == value)


def _availability_title(run: Run) -> str:
    return _mode_title(run.table("availability"))


def _mode_title(table: Settings) -> str:
    beta = table.get("beta")
    name = str(table.get("name", "availability"))
    if name == "deployment":  # the title of the data says already that it is one
        return "nodes on line"
    words = [name] if beta is None else [name, f"{beta:g}"]
    return " ".join([*words, *_changed(name, table)])


def _changed(name: str, table: Settings) -> list[str]:
    """The other settings of a mode that are not its defaults; none of a mode that is not known."""
    try:
        mode = variant_class("availability", name)
    except ConfigError:
        return []
    defaults = mode.model_construct().model_dump(mode="json")  # without those that must be given
    if issubclass(mode, Availability) and not mode.is_independent():
        defaults["empty_round"] = "skip"
    return [
        f"{key}={_setting(table[key])}"
        for key, default in defaults.items()
        if key not in ("beta", "seed") and key in table and table[key] != default
    ]


def _setting(value: object) -> str:
    """A value of a mode's setting; a base is its title."""
    if isinstance(value, Mapping) and "name" in value:
        title = _mode_title(value)
        return f"({title})" if " " in title else title
    return _value(value)


def _unique_titles(
    titles: list[str], *, settings: Sequence[Settings], identities: list[str]
) -> list[str]:
    """Titles, with the differing settings added to those that several identities share."""
    by_title: dict[str, dict[str, Settings]] = {}
    for title, run_settings, identity in zip(titles, settings, identities, strict=True):
        by_title.setdefault(title, {}).setdefault(identity, run_settings)
    unique = []
    for title, identity in zip(titles, identities, strict=True):
        sharing = by_title[title]
        differing = _differences(list(sharing.values()))
        words = _words(title, sharing[identity], differing)
        all_words = {_words(title, run_settings, differing) for run_settings in sharing.values()}
        unique.append(words if len(all_words) == len(sharing) else f"{words} [{identity[:8]}]")
    return unique


def _settings(run: Run, parts: Sequence[str]) -> dict[str, object]:
    """Dotted settings of the parts; for the training, M replaces the settings that decide it.

    In a deployment they stay, since M follows from the connected clients. The name of a variant
    has the key of its table, as where the name alone is given.
    """
    flat: dict[str, object] = {}
    for part in parts:
        table = flattened(run.table(part), f"{part}.")
        flat.update({key.removesuffix(".name"): value for key, value in table.items()})
    if flat.get("aggregation") == "mean":  # as where no aggregation is given
        del flat["aggregation"]
    flat = {key: value for key, value in flat.items() if key not in _NO_DIFFERENCE}
    if "training" in parts and "cohort_limit" in run.about and not run.is_deployment:
        flat = {key: value for key, value in flat.items() if key not in _COHORT}
        flat["training.cohort_limit"] = run.about["cohort_limit"]
    return flat


def flattened(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted key -> value of nested tables; lists become tuples.

    >>> flattened({"graph": {"epsilon": 0.1}, "sizes": [1, 2]}, "method.")
    {'method.graph.epsilon': 0.1, 'method.sizes': (1, 2)}
    """
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = tuple(value) if isinstance(value, list) else value
    return flat


def _differences(runs: Sequence[Settings]) -> set[str]:
    """The keys whose values differ, without those that a `preset` of the same table decides."""
    keys = sorted({key for settings in runs for key in settings})
    differing = {key for key in keys if len({repr(settings.get(key)) for settings in runs}) > 1}
    for preset in [key for key in differing if key.rpartition(".")[2] == "preset"]:
        table = preset.rpartition(".")[0] + "."
        for key in [key for key in differing if key != preset and key.startswith(table)]:
            values = {(repr(settings.get(preset)), repr(settings.get(key))) for settings in runs}
            if len(values) == len({first for first, _ in values}):
                differing.discard(key)
    return differing


def _disputed(runs: Sequence[Settings]) -> set[tuple[str, ...]]:
    """The places, see `_place`, of settings whose values differ between the runs that have them."""
    values: dict[tuple[str, ...], set[str]] = {}
    for key in sorted({key for settings in runs for key in settings}):
        for settings in runs:
            values.setdefault(_place(key, settings), set()).add(repr(settings.get(key)))
    return {place for place, different in values.items() if len(different) > 1}


def _place(key: str, settings: Settings) -> tuple[str, ...]:
    """The key of a setting and the variants that it is in.

    >>> _place("aggregation.beta", {"aggregation": "stale", "aggregation.beta": 0.5})
    ('aggregation.beta', "'stale'")
    """
    parts = key.split(".")
    tables = (".".join(parts[:end]) for end in range(1, len(parts)))
    return (key, *(repr(settings.get(table)) for table in tables))


def _is_default(key: str, settings: Settings) -> bool:
    """Whether a setting has the default of the variant that it belongs to."""
    owner, _, name = key.rpartition(".")
    variant = settings.get(owner, "mean" if owner == "aggregation" else None)
    if not isinstance(variant, str):
        return False
    try:
        field = variant_class(owner.rpartition(".")[2], variant).model_fields.get(name)
    except ConfigError:  # no family, or a variant that is not known here
        return False
    except ModuleNotFoundError:  # aggregations and models need PyTorch, tables of records do not
        return True  # what does not differ is left out
    if field is None or field.is_required():
        return False
    default = field.default.name if isinstance(field.default, Variant) else field.default
    return bool(settings[key] == default)


def _words(name: str, settings: Settings, differing: set[str]) -> str:
    """The name and the differing settings, each by the last part of its key if that is unique."""
    keys = sorted(differing)
    last_parts = [key.rpartition(".")[2] for key in keys]
    words = [name]
    for key, last_part in zip(keys, last_parts, strict=True):
        if key in settings:
            shown = last_part if last_parts.count(last_part) == 1 else key
            words.append(f"{shown}={_value(settings[key])}")
    return " ".join(words)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(_value, value)) if isinstance(value, tuple) else str(value)
