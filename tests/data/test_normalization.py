"""Normalization: what it may be, which examples it fits, which examples need one."""

import logging
from pathlib import Path

import numpy as np
import pytest

from fedgs import Federation, File, Leaf, Normalization
from fedgs.config import Config
from fedgs.data import Labelled, export, open_folder, share_out, to_folder, write_leaf
from fedgs.data.partition import Iid
from fedgs.errors import DataError, UserError
from fedgs.registry import build, table

Y = np.arange(12) % 2
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 3, 5, 7)).astype(np.uint8)
THREE = Normalization(255.0, (0.4, 0.5, 0.6), (0.1, 0.2, 0.3))


def made(x: np.ndarray, normalization: object = None) -> Federation:
    return Federation.from_arrays(x, Y, client=Y, test=(x, Y), normalization=normalization)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0.0, (0.5,), (0.5,)), "scale must be one number above 0, got 0.0"),
        ((-255, (0.5,), (0.5,)), "scale must be one number above 0, got -255"),
        ((1e-60, (0.5,), (0.5,)), "scale must be one number above 0, got 1e-60"),  # 0 in float32
        (((1.0, 2.0), (0.5,), (0.5,)), "scale must be one number above 0"),
        ((np.nan, (0.5,), (0.5,)), "scale must be finite numbers"),
        (("255", (0.5,), (0.5,)), "scale must be finite numbers within float32's range, got '255'"),
        ((True, (0.5,), (0.5,)), "scale must be finite numbers"),
        ((1.0, (np.inf,), (0.5,)), "mean must be finite numbers"),
        ((1.0, (1e300,), (0.5,)), "mean must be finite numbers within float32's range"),
        ((1.0, (10**400,), (0.5,)), "mean must be finite numbers within float32's range"),
        ((1.0, None, (0.5,)), "mean must be finite numbers"),
        ((1.0, "0.5", (0.5,)), "mean must be finite numbers"),
        ((1.0, [[0.5]], [[0.5]]), "mean must be finite numbers"),
        ((1.0, (0.5,), (0.0,)), "sd must be above 0 in every channel, got"),
        ((1.0, (0.5, 0.5), (0.5, -0.5)), "sd must be above 0 in every channel, got"),
        ((1.0, (0.5,), (1e-60,)), "sd must be above 0 in every channel"),
        ((1.0, (0.5,), (np.nan,)), "sd must be finite numbers"),
        (
            (1.0, (0.5, 0.5), (0.5,)),
            "mean and normalization.sd must have one number for each channel, got 2 and 1",
        ),
        (
            (1.0, (), ()),
            "mean and normalization.sd must have one number for each channel, got 0 and 0",
        ),
    ],
)
def test_impossible_settings_are_refused_when_they_are_made(
    settings: tuple[object, ...], message: str
) -> None:
    with pytest.raises(DataError, match=f"^normalization.{message}"):
        Normalization(*settings)  # type: ignore[arg-type]


def test_examples_can_be_scaled_alone() -> None:
    assert Normalization(255.0) == Normalization(255.0, (0.0,), (1.0,))
    assert Normalization(255.0).apply(np.full((1, 1, 1), 51, dtype=np.uint8)).tolist() == [
        [[np.float32(0.2)]]
    ]
    data = build("data", {"name": "file", "path": "a.npz", "normalization": {"scale": 255.0}})
    assert data.normalization == Normalization(255.0)  # type: ignore[attr-defined]


def test_numbers_lists_and_arrays_are_the_same_setting() -> None:
    forms = [
        (0.5, 0.25),
        ([0.5], [0.25]),
        (np.array([0.5]), np.array([0.25])),
        (np.float64(0.5), (np.float64(0.25),)),
    ]
    assert {Normalization(255.0, *form) for form in forms} == {
        Normalization(255.0, (0.5,), (0.25,))
    }  # type: ignore[arg-type]
    assert (
        repr(Normalization(255.0, np.array([0.5]), [0.25]))
        == "Normalization(scale=255.0, mean=(0.5,), sd=(0.25,))"
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(12, 3, 5, 7), (12, 3, 5, 3), (12, 3, 9), (12, 3)])
def test_a_mean_a_channel_or_one_for_all_fits(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    assert made(x, THREE).normalization == THREE
    one = made(x, Normalization(1.0, (0.5,), (0.25,)))
    each = made(x, Normalization(1.0, (0.5,) * 3, (0.25,) * 3))
    assert one.normalization is not None
    assert each.normalization is not None
    assert (
        one.normalization.apply(one.train.x).tolist()
        == each.normalization.apply(each.train.x).tolist()
    )


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((12, 5, 7, 3), 3), ((12, 5, 3, 7), 2), ((12, 9, 3), 2), ((12, 5, 7), None), ((12, 5), None)],
)
def test_channels_elsewhere_are_refused_with_the_axis_to_move(
    shape: tuple[int, ...], axis: int | None
) -> None:
    x = np.zeros(shape, dtype=np.uint8)
    hint = "" if axis is None else rf"; channels come first, so use np.moveaxis\(x, {axis}, 1\)"
    if axis == len(shape) - 1:
        hint += " or channels = 'last'"
    with pytest.raises(
        DataError,
        match=rf"one for each of the {shape[1]} channels of examples of shape .*, got 3{hint}$",
    ):
        made(x, THREE)
    if axis is not None:
        assert made(np.moveaxis(x, axis, 1), THREE).example_shape[0] == 3


@pytest.mark.parametrize("value", [1e30, -1e30])
def test_inputs_that_would_be_infinite_are_refused(value: float) -> None:
    x = np.zeros((12, 3))
    x[7, 1] = value
    with pytest.raises(
        DataError,
        match=r"must leave inputs within float32's range, got -?inf for the value -?1e\+30",
    ):
        made(x, Normalization(1e-30, (0.0,), (1.0,)))


@pytest.mark.parametrize(
    "normalization", [(255, 0.5, 0.5), "mnist", 255.0, {"means": [0.5], "sd": [0.5]}, {}]
)
def test_something_else_is_refused(normalization: object) -> None:
    with pytest.raises(DataError, match="normalization must be a table with scale, mean and sd"):
        made(IMAGES, normalization)


@pytest.mark.parametrize("shape", [(12, 3, 5, 7), (12, 5, 7), (12, 1, 35), (12, 2, 3, 5, 7)])
def test_images_of_bytes_need_a_normalization_and_one_of_1_0_1_leaves_them(
    shape: tuple[int, ...],
) -> None:
    x = np.resize(IMAGES, shape)
    with pytest.raises(
        DataError,
        match="must have a normalization, such as scale 255, .* sd 1 leave them as they are",
    ):
        made(x)
    federation = made(x, Normalization(1.0, (0.0,), (1.0,)))
    assert federation.train.x.dtype == np.uint8
    assert federation.normalization is not None
    assert federation.normalization.apply(x).tolist() == x.astype(float).tolist()


@pytest.mark.parametrize(
    "x",
    [
        IMAGES % 2,
        IMAGES % 16,
        IMAGES.reshape(12, -1)[:, :20],
        IMAGES.astype(np.float32),
        IMAGES > 100,
    ],
)
def test_small_integers_vectors_and_floats_need_none(x: np.ndarray) -> None:
    assert made(x).normalization is None


def test_a_byte_above_15_is_found_in_any_image() -> None:
    x = np.zeros((3000, 2, 2), dtype=np.uint8)
    x[2999, 1, 1] = 16
    y = np.zeros(3000, dtype=int)
    with pytest.raises(DataError, match="values up to 16"):
        Federation.from_arrays(x, y, client=y, test=(x[:1], y[:1]))


@pytest.mark.parametrize(
    ("x", "warned"),
    [
        (IMAGES.astype(np.float32), True),
        (IMAGES.astype(np.int64).reshape(12, -1), True),
        (IMAGES.reshape(12, -1), True),
        (
            IMAGES.reshape(12, -1)[:, :63],
            False,
        ),  # few features: integers that are no pixels are likely
        (IMAGES.astype(np.float32) / 255, False),
        (IMAGES.astype(np.float32) - 1, False),
        (IMAGES.astype(np.float32) * 2, False),
        (IMAGES % 128, False),
    ],
)
def test_other_pixels_give_one_line_in_the_log(
    x: np.ndarray, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if x.dtype == np.uint8 and x.ndim > 2:
        x = x.astype(np.float32)
    with caplog.at_level(logging.WARNING):
        made(x)
    assert ["as pixels are" in record.message for record in caplog.records] == [True] * warned
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        made(x, Normalization(255.0, (0.5,), (0.5,)))
    assert not caplog.records


def test_a_partitioned_set_is_held_to_the_same() -> None:
    with pytest.raises(DataError, match="must have a normalization"):
        share_out(Labelled("mine", IMAGES, Y, (IMAGES, Y), num_labels=2), Iid(), 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.savez(tmp_path / "mine.npz", x=IMAGES, y=Y, client=np.where(np.arange(12) < 8, Y, -1))
    return tmp_path / "mine.npz"


SETTING = {"scale": 255.0, "mean": [0.4, 0.5, 0.6], "sd": [0.1, 0.2, 0.3]}


def test_a_file_takes_a_normalization_from_a_configuration(path: Path) -> None:
    with pytest.raises(DataError, match="must have a normalization"):
        File(path=str(path)).load()
    data = build("data", {"name": "file", "path": str(path), "normalization": SETTING})
    assert isinstance(data, File)
    assert data.load().normalization == THREE
    assert table(data)["normalization"] == SETTING
    assert build("data", table(data)) == data
    assert File(path=str(path), normalization=THREE).load().fingerprint == data.load().fingerprint
    tables = Config(data=data, availability="IDL", method="uniform").tables()
    assert tables["data"]["normalization"] == SETTING
    partitioned = File(path=str(path), normalization=THREE, partition=Iid(), clients=2).load()
    assert partitioned.normalization == THREE


def test_no_normalization_leaves_no_trace_in_a_configuration() -> None:
    for data in (File(path="a.npz"), Leaf(path="a")):
        assert not {"normalization", "classes"} & set(table(data))


@pytest.mark.parametrize(
    "setting",
    [
        {"means": [0.5]},
        {},
        {"mean": [0.5, 0.5]},
        {"scale": 0.0, "mean": 0.5, "sd": 0.5},
        3,
        "a",
        {"mean": 0.5, "sd": 0.0},
    ],
)
def test_a_bad_setting_is_a_user_error_before_anything_is_read(setting: object) -> None:
    with pytest.raises(UserError, match=r"^normalization"):
        build("data", {"name": "file", "path": "nowhere.npz", "normalization": setting})


def test_exports_keep_their_own_and_take_one_where_they_have_none(tmp_path: Path) -> None:
    small, scaled = made(IMAGES % 16), made(IMAGES, THREE)
    for federation, given in ((small, THREE), (scaled, None), (scaled, THREE)):
        npz, folder = (
            export(federation, tmp_path / "kept.npz"),
            write_leaf(federation, tmp_path / "kept"),
        )
        for data in (
            File(path=str(npz), normalization=given),
            Leaf(path=str(folder), normalization=given),
        ):
            assert data.load().normalization == THREE
            assert data.load().train.x.dtype == np.uint8
        assert (
            open_folder(to_folder(federation, tmp_path / "shared")).fingerprint
            == federation.fingerprint
        )
    other = Normalization(2.0, (0.5,), (0.5,))
    for data in (
        File(path=str(npz), normalization=other),
        Leaf(path=str(folder), normalization=other),
    ):
        with pytest.raises(
            DataError, match="data.normalization must be left out or equal to the one stored in"
        ):
            data.load()


def test_an_empty_part_has_no_range_to_check() -> None:
    THREE.check_range(np.zeros((0, 3, 5, 7), dtype=np.float32), "test examples")


def test_a_dump_of_all_settings_has_no_normalization_where_none_is_given(path: Path) -> None:
    assert File(path=str(path)).model_dump()["normalization"] is None
