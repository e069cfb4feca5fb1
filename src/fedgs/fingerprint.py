"""The identity of a run, in parts, so that a difference between two runs can be named.

The parts are the settings, the data's content, the code of a user's own variants with the objects
that it refers to, the files that their settings name, and the numerics version of the program that
carries the run out. How a run is carried out and for how many rounds is not part of its identity.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePath

from pydantic import BaseModel

from fedgs.config import Config
from fedgs.errors import ConfigError, UserError
from fedgs.families import CODE_IN_IDENTITY, FAMILIES
from fedgs.identity import Digest, Digester
from fedgs.identity.sources import origin_of
from fedgs.registry import Variant, build, variant_names

__all__ = ["FORMAT", "Identity", "identity_of"]

# The version of this scheme. Changed numbers have a version of their own: `NUMERICS`, next to the
# code that computes them.
FORMAT = 7
_PLAIN = (type(None), bool, int, float, str, bytes, PurePath, Enum)
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Identity:
    """A run's identity.

    Attributes:
        parts: name -> digest, such as "data", "method" (its code), "method.files"; equal runs have
            equal parts.
        unknown: a sentence for each part whose content cannot be identified; such a run is never
            the same as an earlier one.

    >>> Identity({"data": "d"}).fingerprint == Identity({"data": "e"}).fingerprint
    False
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The digest of all parts, 16 hexadecimal digits."""
        return _short(json.dumps(dict(self.parts), sort_keys=True))

    def beside(self, reason: str) -> "Identity":
        """The identity of the same run restarted next to a stored one that must not be resumed.

        Args:
            reason: what tells the restarted run from the stored run of an earlier version.
        """
        begun_again = _short(self.parts.get("begun_again", "") + reason)
        return Identity({**self.parts, "begun_again": begun_again}, self.unknown)


def identity_of(
    config: Config,
    *,
    data_fingerprint: str,
    limit: int,
    noise_seed: int | None = None,
    numerics: Mapping[str, int] | None = None,
    start: Digest | None = None,
    digester: Digester | None = None,
    system_content: str | None = None,
) -> Identity:
    """A run's identity: what changes its numbers, not how it is executed nor for how many rounds.

    Args:
        config: resolved.
        data_fingerprint: hash of the federation's content.
        limit: M, so that a proportion and the cohort limit it means are the same run.
        noise_seed: of the noise batch from which the sampler's features are computed, which is the
            data's even where the data do not depend on it; None: there is no such batch.
        numerics: program -> version, of the program that `numerics_by_rule` names for such a run.
        start: digest of the module that a user's model builds for seed 0; None: not computed.
        digester: the study's, which caches digests of objects.
        system_content: digest of the files that `[system]` names; None: there is none.
    """
    digester = Digester() if digester is None else digester
    training = config.training.model_dump(
        mode="json", exclude={"rounds", "proportion", "cohort_limit"}
    )
    variants: dict[str, Variant] = {
        key: part for key in CODE_IN_IDENTITY if (part := getattr(config, key)) is not None
    }
    settings = {
        "training": {**training, "cohort_limit": limit},
        "evaluation": config.evaluation.model_dump(mode="json"),
        "seed": config.seed,
        "data_seed": noise_seed,
        **{family: _settings(variant) for family, variant in variants.items()},
    }
    if config.stopping.is_on:
        settings["stopping"] = config.stopping.model_dump(mode="json", exclude_none=True)
    if config.system is not None:
        settings["system"] = config.system.model_dump(mode="json", exclude_none=True)
    parts = {
        "format": str(FORMAT),
        "data": data_fingerprint[:16],
        "settings": _short(json.dumps(settings, sort_keys=True)),
    }
    weights = _weights(config.model, digester)
    if weights is not None:
        parts["model.weights"] = weights[:16]
    if system_content is not None:
        parts["system.content"] = _short(system_content)
    unknown: list[str] = []
    versions = dict(numerics or {})
    for family, variant in {**variants, **_parts_of(config)}.items():
        content = _content(family, variant)
        code, missing = _code(variant, digester)
        if family == "model" and start is not None:
            parts["model.start"] = start.value[:16]
            missing = tuple(dict.fromkeys([*missing, *start.unknown]))
        files = _files(variant, digester)
        if code is not None:
            parts[family] = _short(code)
        if files is not None:
            parts[f"{family}.files"] = _short(files)
        if content is not None:
            parts[f"{family}.content"] = _short(content)
        if missing and not _defines_content(variant):
            unknown.append(_cannot(family, variant, missing))
        if isinstance(variant.numerics, Mapping):  # a setting may have this name
            versions |= variant.numerics
    parts["numerics"] = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    if unknown:
        parts["unique"] = secrets.token_hex(8)
    return Identity(parts, tuple(unknown))


def _parts_of(config: Config) -> dict[str, Variant]:
    """Dotted key -> variant, for those that are settings of the training and the evaluation."""
    training = config.training
    given = {
        "training.loss": training.loss,
        "training.optimizer": training.optimizer,
        "training.schedule": training.schedule,
    }
    parts = {key: variant for key, variant in given.items() if variant is not None}
    for place, metric in enumerate(config.evaluation.metrics):
        parts[f"evaluation.metrics.{place}"] = metric
    return parts


def _settings(variant: Variant) -> dict[str, object]:
    """The settings that a table can hold; other objects, such as arrays, go by their content."""
    opaque = {key for key in type(variant).model_fields if not _is_plain(getattr(variant, key))}
    opaque |= variant.apart_in_identity
    return {
        "name": variant.name,
        **variant.model_dump(mode="json", exclude_none=True, exclude=opaque),
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_is_plain(item) for item in value)
    if isinstance(value, BaseModel):
        return all(_is_plain(getattr(value, key)) for key in type(value).model_fields)
    return isinstance(value, _PLAIN)


def _code(variant: Variant, digester: Digester) -> tuple[str | None, tuple[str, ...]]:
    """A digest of a user's class and of the values of its fields, and what could not be identified.

    Of a class of the package it covers only those objects in the fields that no table can hold, and
    the user's own parts.
    """
    values = _fields(variant)
    if origin_of(type(variant).__module__) != "fedgs":
        values |= variant.__pydantic_private__ or {}
        digests = [digester.of(type(variant)), *(digester.of(value) for value in values.values())]
    else:
        digests = [digester.of(value) for value in values.values() if not _is_plain(value)]
    digests += [digester.of(part) for part in _own_parts(variant)]
    unknown = dict.fromkeys(name for digest in digests for name in digest.unknown)
    code = json.dumps([digest.value for digest in digests]) if digests else None
    return code, tuple(unknown)


def _files(variant: Variant, digester: Digester) -> str | None:
    """Hashes of the files that the settings of a user's variant name.

    Variants that define `content_digest`, as those of the package do, include their files there.
    """
    own = [variant] if origin_of(type(variant).__module__) != "fedgs" else []
    own = [part for part in (*own, *_own_parts(variant)) if not _defines_content(part)]
    hashes = [digester.file(path) for part in own for path in _paths(_fields(part))]
    return json.dumps(hashes) if hashes else None


def _own_parts(variant: Variant) -> Iterator[Variant]:
    """The user's own variants in the settings, such as a weighting or a server step.

    Of a user's class only those that are given by name, since objects count as values of its
    fields.
    """
    is_own = origin_of(type(variant).__module__) != "fedgs"
    for key, value in _fields(variant).items():
        part = value if isinstance(value, Variant) and not is_own else None
        family = FAMILIES.get(key)
        is_name = isinstance(value, str) and family is not None and not family.is_table
        if is_name and value in variant_names(key):
            part = build(key, value)
        if part is not None and origin_of(type(part).__module__) != "fedgs":
            yield part


def _fields(variant: Variant) -> dict[str, object]:
    left_out = variant.apart_in_identity
    return {key: getattr(variant, key) for key in type(variant).model_fields if key not in left_out}


def _weights(model: Variant | None, digester: Digester) -> str | None:
    """The hash of the file that a model starts from; None: there is none.

    The place of the file does not count, its content does.
    """
    start = getattr(model, "start", None)
    if not isinstance(start, str):
        return None
    path = Path(start).expanduser()
    if not path.is_file():
        raise ConfigError(f"model.start must be a safetensors file, got {start!r}, which is none")
    return digester.file(path)


def _content(family: str, variant: Variant) -> str | None:
    try:
        content = getattr(variant, "content_digest", None)
    except UserError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{family} {_title(variant)!r}: content_digest raised {type(error).__name__}: {error}"
        ) from error
    return None if content is None else str(content)


def _defines_content(variant: Variant) -> bool:
    """Whether a user's class, or the function that the variant stands for, has `content_digest`."""
    if getattr(variant, "content_digest", None) is None:
        return False
    if getattr(getattr(variant, "function", None), "content_digest", None) is not None:
        return True
    owner = next((cls for cls in type(variant).__mro__ if "content_digest" in vars(cls)), None)
    return owner is not None and origin_of(owner.__module__) != "fedgs"


def _paths(value: object) -> Iterator[Path]:
    """Regular files that a value names, in order."""
    if isinstance(value, str | PurePath):
        text = str(value)
        if text and len(text) < _LONGEST_PATH and "\0" not in text:
            try:
                if Path(text).is_file():
                    yield Path(text)
            except OSError:  # a name that the file system cannot have
                return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _paths(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item)
    elif isinstance(value, set | frozenset):
        yield from sorted(path for item in value for path in _paths(item))
    elif isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from _paths(getattr(value, key))


def _cannot(family: str, variant: Variant, unknown: tuple[str, ...]) -> str:
    named = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
    return (
        f"{family} {_title(variant)!r} refers to {named}, whose content cannot be identified: "
        "its runs are not reused; give it a content_digest"
    )


def _title(variant: Variant) -> str:
    function = getattr(variant, "function", None)
    function_name = getattr(function, "__name__", "") if variant.name == "function" else ""
    return function_name or variant.name or type(variant).__name__


def _short(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]
