"""The request for an experiment: data, modes, methods, rounds, seeds and scale."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.grid import parse_override
from fedgs.experiments.paper.frame.conditions import Mode, Source, parse_data, parse_modes, words_of

__all__ = ["ExperimentRequest", "Options", "parse_seeds"]


@dataclass(frozen=True)
class Options:
    """The options of `fedgs reproduce` as they are typed.

    An empty value means that an option is not given.

    Attributes:
        data, modes, methods, set: texts, each with one or several values separated by commas
            (`set`: one KEY=VALUE each).
        rounds, workers: numbers >= 1.
        seeds, scale: texts.
        ours: a flag.
    """

    data: Sequence[str] = ()
    modes: Sequence[str] = ()
    methods: Sequence[str] = ()
    rounds: int | None = None
    seeds: str = ""
    scale: str = ""
    ours: bool = False
    workers: int | None = None
    set: Sequence[str] = ()

    @property
    def given(self) -> list[str]:
        """The names of the options that are given.

        >>> Options(rounds=5, set=["data.seed=1"]).given
        ['rounds', 'set']
        """
        return [option.name for option in fields(self) if getattr(self, option.name)]


@dataclass(frozen=True)
class ExperimentRequest:
    """A request for one experiment. None or empty means the experiment's default.

    Attributes:
        name: of the experiment.
        data: federations.
        modes: availability modes, for every federation; empty: the paper's for each.
        methods: rows, by key or by family ("fedgs" for all of its rows); empty: all.
        rounds: T.
        seeds: one run a row and seed.
        scale: of the FedGS rows, "cohort" or "paper".
        ours: add rows of this project's own.
        overrides: further (dotted key, value) settings for every run.
    """

    name: str
    data: tuple[Source, ...] = ()
    modes: tuple[Mode, ...] = ()
    methods: tuple[str, ...] = ()
    rounds: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    scale: str = "cohort"
    ours: bool = False
    overrides: tuple[tuple[str, object], ...] = ()

    @staticmethod
    def of(name: str, options: Options, *, data_dir: Path | None = None) -> "ExperimentRequest":
        """The request that the options of a command line make.

        Args:
            name: of the experiment; it is not looked up here.
            options: as typed.
            data_dir: where data files are searched, besides the working folder.

        Raises:
            ConfigError: a value that cannot be parsed, or a data file that does not exist.

        >>> request = ExperimentRequest.of("table2", Options(modes=["LDF,MDF0.3"], seeds="2"))
        >>> [mode.title for mode in request.modes], request.seeds, request.scale
        (['LDF 0.7', 'MDF 0.3'], (0, 1), 'cohort')
        """
        return ExperimentRequest(
            name,
            data=parse_data(options.data, data_dir),
            modes=parse_modes(options.modes),
            methods=tuple(words_of(options.methods)),
            rounds=options.rounds,
            seeds=parse_seeds(options.seeds or "3"),
            scale=options.scale or "cohort",
            ours=options.ours,
            overrides=tuple(parse_override(text) for text in options.set),
        )

    def modes_of(self, source: Source) -> tuple[Mode, ...]:
        """The modes to run on a federation."""
        return self.modes or tuple(Mode(name) for name in source.modes)

    @property
    def changes(self) -> tuple[tuple[str, object], ...]:
        """The overrides that change figures; those of `execution` do not."""
        return tuple(
            (key, value) for key, value in self.overrides if not key.startswith("execution.")
        )

    @property
    def stem(self) -> str:
        """The name of the output files: the experiment, its data, and the changes by `--set`.

        >>> ExperimentRequest("table2", (Source("synthetic"),), overrides=(("data.seed", 3),)).stem
        'table2-synthetic-data.seed=3'
        """
        changed = [
            f"{key}={value}".translate(str.maketrans("", "", "[] ")) for key, value in self.changes
        ]
        words = "-".join([self.name, *(source.key for source in self.data), *changed])
        return re.sub(r"[^\w.,=+-]", "_", words)[:120]

    def as_json(self) -> dict[str, object]:
        """Plain lists and tables."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "ExperimentRequest":
        """The request that `as_json` was called on.

        Raises:
            OutputError: the tables are not those of a request.

        >>> request = ExperimentRequest(
        ...     "fig4", (Source("cifar10"),), (Mode("LN"),), overrides=(("evaluation.every", 10),)
        ... )
        >>> ExperimentRequest.from_json(request.as_json()) == request
        True
        """
        try:
            return ExperimentRequest(
                **{
                    **stored,
                    "data": tuple(Source(**source) for source in stored["data"]),
                    "modes": tuple(Mode(**mode) for mode in stored["modes"]),
                    "overrides": tuple((str(key), value) for key, value in stored["overrides"]),
                    **{key: tuple(stored[key]) for key in ("methods", "seeds")},
                }
            )
        except (TypeError, KeyError, ValueError) as error:
            raise OutputError(f"not the request of an experiment: {error!r}") from None


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse `--seeds`: how many, or which, separated by commas.

    Raises:
        ConfigError: the text is neither.

    >>> parse_seeds("3"), parse_seeds("4,"), parse_seeds("0,7")
    ((0, 1, 2), (4,), (0, 7))
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if (
        not words
        or not all(word.isdecimal() for word in words)
        or (words == ["0"] and "," not in text)
    ):
        raise ConfigError(
            f"--seeds must be how many (3) or which (0,1,2), whole numbers >= 0; got {text!r}"
        )
    if "," not in text:
        return tuple(range(int(text)))
    return tuple(dict.fromkeys(int(word) for word in words))
