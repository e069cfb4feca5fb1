"""What a command line asks of an experiment, checked: data, modes, methods, rounds, seeds, scale."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.paper.frame.published import MODES, PAPER_BETA
from fedgs.registry import nearest

__all__ = ["Asked", "Mode", "Source", "parse_data", "parse_modes", "parse_seeds"]

_BUILT_IN = {"synthetic": "Synthetic(0.5, 0.5)", "cifar10": "CIFAR10", "fashion_mnist": "FashionMNIST"}
PAPER_CLIENTS = 30  # of the paper's Synthetic federation


@dataclass(frozen=True)
class Source:
    """A federation to experiment on.

    Attributes:
        key: "synthetic", "cifar10", "fashion_mnist", or the stem of a file's name.
        path: the file, or None.

    >>> Source("cifar10").title
    'CIFAR10'
    """

    key: str
    path: str | None = None

    @property
    def title(self) -> str:
        """What tables call it."""
        return self.key if self.path is not None else _BUILT_IN[self.key]

    @property
    def table(self) -> dict[str, Any]:
        """Its table of a configuration."""
        return {"name": self.key} if self.path is None else {"name": "file", "path": self.path}

    @property
    def modes(self) -> tuple[str, ...]:
        """The paper's modes for it; those of Synthetic for a file."""
        return MODES["synthetic" if self.path is not None else self.key]

    def paper_block(self, num_clients: int | None) -> str | None:
        """Whose published figures stand beside it: those of Synthetic for a file of 30 clients, none for other files."""
        if self.path is None:
            return self.key
        return "synthetic" if num_clients == PAPER_CLIENTS else None


@dataclass(frozen=True)
class Mode:
    """An availability mode with its beta (None: the mode's default, which is the paper's).

    >>> Mode("LDF").title, Mode("LN", 0.3).title, Mode("LN", 0.3).published
    ('LDF 0.7', 'LN 0.3', False)
    """

    name: str
    beta: float | None = None

    @property
    def title(self) -> str:
        """What tables call it."""
        beta = PAPER_BETA[self.name] if self.beta is None else self.beta
        return self.name if beta is None else f"{self.name} {beta:g}"

    @property
    def table(self) -> dict[str, Any]:
        """Its table of a configuration."""
        return {"name": self.name} if self.beta is None else {"name": self.name, "beta": self.beta}

    @property
    def published(self) -> bool:
        """Whether this is the mode at the paper's beta."""
        return self.beta is None or self.beta == PAPER_BETA[self.name]


@dataclass(frozen=True)
class Asked:
    """One experiment as it was asked for; None or empty: the experiment's own default.

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
    overrides: tuple[tuple[str, Any], ...] = field(default=())

    def modes_of(self, source: Source) -> tuple[Mode, ...]:
        """The modes to run on a federation."""
        return self.modes or tuple(Mode(name) for name in source.modes)

    @property
    def changes(self) -> tuple[tuple[str, Any], ...]:
        """The overrides that change figures: not those of how runs are carried out."""
        return tuple((key, value) for key, value in self.overrides if not key.startswith("execution."))

    @property
    def stem(self) -> str:
        """The name of the files that show it: the experiment, its data, and what was changed by `--set`.

        >>> Asked("table2", (Source("synthetic"),), overrides=(("data.seed", 3),)).stem
        'table2-synthetic-data.seed=3'
        """
        changed = [f"{key}={value}".translate(str.maketrans("", "", "[] ")) for key, value in self.changes]
        words = "-".join([self.name, *(source.key for source in self.data), *changed])
        return re.sub(r"[^\w.,=+-]", "_", words)[:120]

    def as_json(self) -> dict[str, Any]:
        """Plain lists and tables."""
        return asdict(self)

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "Asked":
        """What `as_json` gave.

        Raises:
            OutputError: something else.

        >>> asked = Asked("fig4", (Source("cifar10"),), (Mode("LN"),), overrides=(("evaluation.every", 10),))
        >>> Asked.from_json(asked.as_json()) == asked
        True
        """
        try:
            return Asked(
                **{
                    **stored,
                    "data": tuple(Source(**one) for one in stored["data"]),
                    "modes": tuple(Mode(**one) for one in stored["modes"]),
                    "overrides": tuple((str(key), value) for key, value in stored["overrides"]),
                    **{key: tuple(stored[key]) for key in ("methods", "seeds")},
                }
            )
        except (TypeError, KeyError, ValueError) as error:
            raise OutputError(f"not the request of an experiment: {error!r}") from None


def parse_data(texts: Sequence[str], data_dir: Path | None = None) -> tuple[Source, ...]:
    """`--data`: names of data sets, or .npz files; several are separated by commas or given one by one.

    Raises:
        ConfigError: an unknown name, or a file that is not there.

    >>> parse_data(["synthetic,cifar10"])
    (Source(key='synthetic', path=None), Source(key='cifar10', path=None))
    """
    sources: dict[str, Source] = {}
    for word in _words(texts):
        source = Source(word) if word in _BUILT_IN else _file(word, data_dir)
        if source.key in sources:
            raise ConfigError(f"--data names {source.key!r} twice; give each federation once, and files names of their own")
        sources[source.key] = source
    return tuple(sources.values())


def _file(word: str, data_dir: Path | None) -> Source:
    if not word.endswith(".npz"):
        known = list(_BUILT_IN)
        raise ConfigError(f"--data must be {', '.join(known)} or an .npz file; got {word!r}{nearest(word, known)}")
    path = Path(word).expanduser()
    if not path.is_file() and not (data_dir is not None and (data_dir / path).is_file()):
        raise ConfigError(f"--data must be {', '.join(_BUILT_IN)} or an .npz file; there is no file {word!r}")
    if path.stem in _BUILT_IN:
        raise ConfigError(f"--data: rename the file {word!r}, since {path.stem!r} is the name of a data set")
    return Source(path.stem, word)


def parse_modes(texts: Sequence[str]) -> tuple[Mode, ...]:
    """`--modes`: names, each with a beta if it is not the paper's.

    Raises:
        ConfigError: an unknown mode, or a beta for IDL.

    >>> parse_modes(["LN,LDF0.3"])
    (Mode(name='LN', beta=None), Mode(name='LDF', beta=0.3))
    """
    modes: list[Mode] = []
    for word in _words(texts):
        match = re.fullmatch(r"([A-Za-z]+)[ :=]?(\d*\.?\d+)?", word)
        name, beta = (match[1].upper(), match[2]) if match else (word, None)
        if name not in PAPER_BETA:
            known = list(PAPER_BETA)
            raise ConfigError(
                f"--modes must be of {', '.join(known)}, each with or without a beta; got {word!r}{nearest(name, known)}"
            )
        if beta is not None and PAPER_BETA[name] is None:
            raise ConfigError(f"--modes: {name} has no beta; got {word!r}")
        modes.append(Mode(name, None if beta is None else float(beta)))
    return tuple(dict.fromkeys(modes))


def parse_seeds(text: str) -> tuple[int, ...]:
    """`--seeds`: how many, or which, separated by commas.

    Raises:
        ConfigError: neither.

    >>> parse_seeds("3"), parse_seeds("4,"), parse_seeds("0,7")
    ((0, 1, 2), (4,), (0, 7))
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words) or (words == ["0"] and "," not in text):
        raise ConfigError(f"--seeds must be how many (3) or which (0,1,2), whole numbers >= 0; got {text!r}")
    if "," not in text:
        return tuple(range(int(text)))
    return tuple(dict.fromkeys(int(word) for word in words))


def _words(texts: Sequence[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]
