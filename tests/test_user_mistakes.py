"""Mistakes in user code and in arguments: one sentence before round 0, for every part."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs import Selection
from fedgs.aggregation import Aggregation
from fedgs.availability import Availability
from fedgs.data import Data, Federation
from fedgs.errors import ConfigError, UserError
from fedgs.experiments.compare import compare
from fedgs.experiments.grid import expand, read_config
from fedgs.registry import build, load_plugin, register
from fedgs.sampling import Sampler
from fedgs.weighting import Weighting

QUICK = {"rounds": 2, "proportion": 0.5}


def stops() -> Any:
    sys.exit(3)


def needs(width: int) -> Any:
    return width


class Unchecked(Sampler):
    def check(self, clients: Any, cohort_limit: int) -> None:
        raise ValueError("no such thing")

    def select(self, view: Any, rng: Any) -> Selection:
        return Selection(view.available[:1])


class Undefined(Sampler):
    pass


class NoWeights(Weighting):
    pass


class NoFolds(Aggregation):
    pass


class NoStep(Aggregation):
    def folds(self, round: Any) -> Any:
        return ()


class Texts(Availability):
    def rates(self, round: int, clients: Any) -> Any:
        return "often"


class Number(Data):
    def load(self, data_dir: Path | None = None) -> Any:
        return 5


class Burning(Data):
    def load(self, data_dir: Path | None = None) -> Any:
        raise OSError("disk on fire")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"methods": None}, "methods must be a collection of samplers, .*; got None"),
        ({"methods": "uniform"}, "methods must be a collection of samplers, .*; got 'uniform'"),
        ({"methods": [lambda view, rng: [0]]}, "decorate a function with @fedgs.sampler"),
        ({"methods": [{"name": ["md"]}]}, r"method.name must be one of .*; got \['md'\]"),
        ({"methods": [Texts()]}, "method must be a name"),
        (
            {"methods": [Unchecked()]},
            "check of method 'Unchecked' raised ValueError: no such thing",
        ),
        ({"methods": [Undefined()]}, "method 'Undefined' must define select"),
        (
            {"methods": [fedgs.Uniform(weighting=NoWeights())]},
            r"^weighting 'NoWeights' must define weights\(view, selection, memory\)$",
        ),
        ({"aggregation": NoFolds()}, r"^aggregation 'NoFolds' must define folds\(round\)$"),
        ({"aggregation": NoStep()}, r"^aggregation 'NoStep' must define step\(round, results\)$"),
        ({"seeds": None}, "seeds must be a collection of integers, .*; got None"),
        ({"seeds": 3}, "seeds must be a collection of integers, .*; got 3"),
        ({"seeds": "0"}, "seeds must be a collection of integers"),
        ({"training": []}, r"training must be a table of settings or a Training, got \[\]"),
        ({"system": 5}, "system must be a table of settings or a System, got 5"),
        ({"training": {5: 3}}, "training must be a table whose keys are texts, got the key 5"),
        ({"out": 5}, "out must be the path of a folder or None, got 5"),
        ({"on_progress": 5}, "on_progress must be a function"),
        ({"availability": np.ones((100, 100))}, "availability must be a name.*"),
        ({"availability": Texts()}, "must give 6 rates, one a client, got 'often' in round 0"),
        ({"model": needs}, "model 'needs' raised TypeError"),
        ({"model": stops}, "model 'stops' raised SystemExit: 3"),
    ],
)
def test_what_compare_cannot_carry_out_is_one_sentence(
    toy_federation: Federation, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"methods": ["uniform"], "training": QUICK, "out": tmp_path / "out", **settings}
    with pytest.raises(UserError, match=message) as raised:
        compare(toy_federation, **given)
    sentence = str(raised.value).partition("\nTraceback")[0]
    assert "\n" not in sentence and len(sentence) < 400
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "federation must be a Federation, a data set or the name of one, got None"),
        ((np.ones((50, 50)), np.ones(50)), "federation must be a Federation"),
        (Number(), "must load a Federation, got 5"),
        (Burning(), "raised OSError: disk on fire"),
    ],
)
def test_what_is_no_federation_is_one_sentence(data: Any, message: str) -> None:
    with pytest.raises(
        ConfigError if data is not None and not isinstance(data, Number) else UserError,
        match=message,
    ):
        compare(data, methods=["uniform"], training=QUICK)


def test_numbers_of_numpy_are_numbers(toy_federation: Federation) -> None:
    plain = compare(toy_federation, methods=["uniform"], training=QUICK, seeds=[1])
    given = {"rounds": np.int64(2), "proportion": np.float64(0.5)}
    other = compare(toy_federation, methods=["uniform"], training=given, seeds=np.array([1]))
    assert [record.test_loss for record in other.runs[0].records] == [
        record.test_loss for record in plain.runs[0].records
    ]
    with pytest.raises(ConfigError, match="rounds should be a valid integer, got True"):
        compare(toy_federation, methods=["uniform"], training={"rounds": np.True_})


def test_a_sampler_that_exits_fails_its_own_run_alone(toy_federation: Federation) -> None:
    @fedgs.sampler("exits")
    def exits(view: Any, rng: Any) -> Any:
        sys.exit(3)

    results = compare(toy_federation, methods=[exits, "uniform"], training=QUICK)
    failed, fine = results.runs
    assert (
        failed.failure is not None
        and "sys.exit(3)" in failed.failure["error"]
        and "in exits" in failed.failure["traceback"]
    )
    assert fine.failure is None and len(fine.records) == 3


@pytest.mark.parametrize(
    "content", ["import sys\nsys.exit(4)\n", "import nowhere_at_all\n", "def (\n", "x = 1\0\n"]
)
def test_a_plugin_that_cannot_be_imported_is_a_sentence_without_frames_of_others(
    content: str, tmp_path: Path
) -> None:
    (tmp_path / "plug.py").write_text(content)
    with pytest.raises(ConfigError, match="plug.py' raised ") as raised:
        load_plugin(tmp_path / "plug.py")
    assert "<frozen" not in str(raised.value)


def test_only_variants_can_be_registered() -> None:
    with pytest.raises(
        ConfigError, match=r"register\('method', 'plain'\) takes a subclass of fedgs.Sampler"
    ):
        register("method", "plain")(int)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="model must be a name"):
        build("model", build("availability", "IDL"))


def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert expand(read_config(tmp_path / "mine.toml")).configs[0].seed == 3


def test_a_name_that_is_a_list_is_refused_in_a_table() -> None:
    with pytest.raises(ConfigError, match=r"method.name must be one of .*; got \['md'\]"):
        expand({"method": {"name": ["md"]}})
