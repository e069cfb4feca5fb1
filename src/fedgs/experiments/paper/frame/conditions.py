"""What an experiment compares methods on: federations and availability modes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgs.availability import Availability
from fedgs.errors import ConfigError
from fedgs.experiments.paper.frame.published import MODES, PAPER_BETA
from fedgs.registry import variant_class, variant_names
from fedgs.suggestions import nearest

__all__ = ["Mode", "Source", "other_modes", "parse_data", "parse_modes", "words_of"]

_BUILT_IN = {
    "synthetic": "Synthetic(0.5, 0.5)",
    "cifar10": "CIFAR10",
    "fashion_mnist": "FashionMNIST",
}
PAPER_CLIENTS = 30  # of the paper's Synthetic federation


@dataclass(frozen=True)
class Source:
    """A federation to experiment on.

    Attributes:
        key: "synthetic", "cifar10", "fashion_mnist", or the stem of a file name.
        path: the file, or None.

    >>> Source("cifar10").title
    'CIFAR10'
    """

    key: str
    path: str | None = None

    @property
    def title(self) -> str:
        """Its name in tables."""
        return self.key if self.path is not None else _BUILT_IN[self.key]

    @property
    def table(self) -> dict[str, object]:
        """Its table of a configuration."""
        return {"name": self.key} if self.path is None else {"name": "file", "path": self.path}

    @property
    def modes(self) -> tuple[str, ...]:
        """The paper's modes for it; those of Synthetic for a file."""
        return MODES["synthetic" if self.path is not None else self.key]

    def paper_block(self, num_clients: int | None) -> str | None:
        """The data set whose published figures are comparable, or None.

        A file of 30 clients is compared with Synthetic, other files with nothing.
        """
        if self.path is None:
            return self.key
        return "synthetic" if num_clients == PAPER_CLIENTS else None


@dataclass(frozen=True)
class Mode:
    """An availability mode with its beta (None: the mode's default, which is the paper's).

    Modes that are not the paper's have no beta here; their settings are the defaults.

    >>> Mode("LDF").title, Mode("LN", 0.3).title, Mode("LN", 0.3).published
    ('LDF 0.7', 'LN 0.3', False)
    >>> Mode("groups").title, Mode("groups").published
    ('groups', False)
    """

    name: str
    beta: float | None = None

    @property
    def title(self) -> str:
        """Its name in tables."""
        beta = PAPER_BETA.get(self.name) if self.beta is None else self.beta
        return self.name if beta is None else f"{self.name} {beta:g}"

    @property
    def table(self) -> dict[str, object]:
        """Its table of a configuration."""
        return {"name": self.name} if self.beta is None else {"name": self.name, "beta": self.beta}

    @property
    def published(self) -> bool:
        """Whether this is a mode of the paper at the paper's beta."""
        return self.name in PAPER_BETA and self.beta in (None, PAPER_BETA[self.name])

    @property
    def is_independent(self) -> bool:
        """Whether its clients are available independently, with their rates."""
        return _mode_class(self.name).is_independent()


def parse_data(texts: Sequence[str], data_dir: Path | None = None) -> tuple[Source, ...]:
    """Parse `--data`: names of data sets or .npz files, separated by commas or given one by one.

    Raises:
        ConfigError: an unknown name, or a file that does not exist.

    >>> parse_data(["synthetic,cifar10"])
    (Source(key='synthetic', path=None), Source(key='cifar10', path=None))
    """
    sources: dict[str, Source] = {}
    for word in words_of(texts):
        source = Source(word) if word in _BUILT_IN else _file(word, data_dir)
        if source.key in sources:
            raise ConfigError(
                f"--data names {source.key!r} twice; give each federation once, and files names of "
                "their own"
            )
        sources[source.key] = source
    return tuple(sources.values())


def _file(word: str, data_dir: Path | None) -> Source:
    if not word.endswith(".npz"):
        known = list(_BUILT_IN)
        raise ConfigError(
            f"--data must be {', '.join(known)} or an .npz file; got {word!r}{nearest(word, known)}"
        )
    path = Path(word).expanduser()
    if not path.is_file() and not (data_dir is not None and (data_dir / path).is_file()):
        raise ConfigError(
            f"--data must be {', '.join(_BUILT_IN)} or an .npz file; there is no file {word!r}"
        )
    if path.stem in _BUILT_IN:
        raise ConfigError(
            f"--data: rename the file {word!r}, since {path.stem!r} is the name of a data set"
        )
    return Source(path.stem, word)


def parse_modes(texts: Sequence[str]) -> tuple[Mode, ...]:
    """Parse `--modes`: names, those of the paper's modes each with a beta unless it is the paper's.

    Raises:
        ConfigError: an unknown mode, or a beta for IDL.

    >>> parse_modes(["LN,LDF0.3,markov"])
    (Mode(name='LN', beta=None), Mode(name='LDF', beta=0.3), Mode(name='markov', beta=None))
    """
    modes: list[Mode] = []
    for word in words_of(texts):
        if word in other_modes():
            modes.append(Mode(word))
            continue
        match = re.fullmatch(r"([A-Za-z]+)[ :=]?(\d*\.?\d+)?", word)
        name, beta = (match[1].upper(), match[2]) if match else (word, None)
        if name not in PAPER_BETA:
            known = list(PAPER_BETA)
            meant = nearest(name, known) or nearest(word, other_modes())
            raise ConfigError(
                f"--modes must be of {', '.join(known)}, each with or without a beta; got {word!r}"
                f"{meant}"
            )
        if beta is not None and PAPER_BETA[name] is None:
            raise ConfigError(f"--modes: {name} has no beta; got {word!r}")
        modes.append(Mode(name, None if beta is None else float(beta)))
    return tuple(dict.fromkeys(modes))


def other_modes() -> list[str]:
    """The availability modes beyond the paper's that have rates and need no settings.

    >>> {"markov", "diurnal"} <= set(other_modes()), "file" in other_modes()
    (True, False)
    """
    names = (name for name in variant_names("availability") if name not in PAPER_BETA)
    return [
        name
        for name in names
        if _mode_class(name).has_rates()
        and not any(field.is_required() for field in _mode_class(name).model_fields.values())
    ]


def _mode_class(name: str) -> type[Availability]:
    mode = variant_class("availability", name)
    assert issubclass(mode, Availability)
    return mode


def words_of(texts: Sequence[str]) -> list[str]:
    """The values of an option that are separated by commas or given one by one.

    >>> words_of(["uniform, md", "fedgs"])
    ['uniform', 'md', 'fedgs']
    """
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]
