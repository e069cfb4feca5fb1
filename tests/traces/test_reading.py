"""What each form of file gives, on files made by hand."""

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.traces.material import needs_phones, phones

from fedgs.errors import ConfigError, DataError
from fedgs.traces import Traces
from fedgs.traces.csv_text import read_csv
from fedgs.traces.fedscale import read_fedscale
from fedgs.traces.flame import KEY, read_trainers, read_yaml
from fedgs.traces.flash import read_flash
from fedgs.traces.reading import form_of, read_form
from fedgs.traces.rules import STATES, parsed_rule


def table(traces: Traces) -> dict[str, object]:
    """Name -> ([on, off), ...], observed time."""
    return {
        name: (
            [
                (int(traces.on[e]), int(traces.off[e]))
                for e in range(traces.offsets[d], traces.offsets[d + 1])
            ],
            (int(traces.seen_from[d]), int(traces.seen_to[d])),
        )
        for d, name in enumerate(traces.names)
    }


# csv


def test_csv_matches_rows_by_name() -> None:
    text = "\ufeffDevice, on,off\r\nb,100,200\n\na,0,60\nb,10,20\na,300,300\n"
    assert table(read_csv(text.encode()).traces({})) == {
        "b": ([(10, 20), (100, 200)], (10, 200)),
        "a": ([(0, 60)], (0, 300)),
    }


def test_csv_of_changes_begins_at_second_0() -> None:
    text = "id,state,t1,t2,t3\na,1,60,120\nb,off,30,40,90\nc,true\nd,0,5,,\n"
    assert table(read_csv(text.encode()).traces({})) == {
        "a": ([(0, 60)], (0, 120)),
        "b": ([(30, 40)], (0, 90)),
        "c": ([], (0, 0)),
        "d": ([], (0, 5)),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "its first line must be device,on,off or id,state,... .*, got ''"),
        (b"a,0,60\n", "got 'a,0,60'"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"device,on,off\n", "^a trace must have at least one device, got none$"),
        (b"device,on,off\na,0\n", "a line must be device,on,off, got 'a,0' in line 2"),
        (b"device,on,off\n,0,5\n", "a line must be device,on,off, got ',0,5' in line 2"),
        (b"device,on,off\na,0,-5\n", "integers >= 0 of at most 10 digits, got '-5' in line 2"),
        (b"device,on,off\na,0,1.5\n", "got '1.5' in line 2"),
        (b"device,on,off\na,0,99999999999\n", "got '99999999999' in line 2"),
        (b"device,on,off\na,0,9999999999\n", "seconds must be in 0 to 2147483647, device 'a'"),
        (b"device,on,off\na,9,5\n", r"must not end before it begins, device 'a' has \[9, 5\)"),
        (b'device,on,off\n"a,0,5\n', "it is not a csv file: unexpected end of data in line 2"),
        (b"id,state\na,maybe\n", "with a state 1, 0, on, off, true or false, got 'a,maybe'"),
        (b"id,state\na\n", "got 'a' in line 2"),
        (b"id,state\na,1,9,5\n", "must not descend, those of line 2 do"),
        (b"id,state\na,1,9\na,0\n", "a device must have one line, 'a' has another, 3"),
    ],
)
def test_wrong_csv_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(text).traces({})


# FedScale's pickle


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol_are_read(protocol: int) -> None:
    record = {
        "duration": 30,
        "inactive": [10, 110, 210],
        "finish_time": 300,
        "active": [0, 100, 200],
        "model": "CPH1801",
    }
    content = pickle.dumps({1: record, "b": {**record, "active": [], "inactive": []}}, protocol)
    assert table(read_fedscale(content).traces({})) == {
        "1": ([(0, 10), (100, 110), (200, 210)], (0, 300)),
        "b": ([], (0, 300)),
    }


def test_pickles_with_faults_are_repaired_and_counted() -> None:
    record = {"active": [50, 0, 0, 90, 80], "inactive": [60, 10, 10, 120, 80], "finish_time": 100}
    collected = read_fedscale(pickle.dumps({1: record}))
    assert table(collected.traces({})) == {"1": ([(0, 10), (50, 60), (90, 100)], (0, 100))}
    assert collected.repairs == {
        "beyond_finish_time": 1, "duplicate": 1, "unsorted": 2, "zero_length": 1,
    }  # fmt: skip


def changed(**settings: object) -> bytes:
    record = {"active": [0], "inactive": [10], "finish_time": 300}
    return pickle.dumps({"x": {**record, **settings}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is not a readable pickle: pickle exhausted before seeing STOP"),
        (b"no pickle", "it is not a readable pickle"),
        (pickle.dumps([1]), "it must hold a dict of devices, got list"),
        (pickle.dumps({1.5: {}}), "ids of devices must be int or str, got float"),
        (pickle.dumps({True: {}}), "ids of devices must be int or str, got bool"),
        (pickle.dumps({1: [2]}), "device '1' must have a dict, got list"),
        (changed(active=[True]), "device 'x' must have a list of int seconds 'active'"),
        (changed(inactive=(10,)), "device 'x' must have a list of int seconds 'inactive'"),
        (changed(active=[0, 5]), "as many seconds 'active' as 'inactive' .* got 2 and 1 and int"),
        (changed(finish_time=300.0), "an int 'finish_time', got 1 and 1 and float"),
        (changed(finish_time=-1), "must have 0 <= active <= inactive and finish_time >= 0"),
        (changed(active=[11]), "must have 0 <= active <= inactive"),
        (changed(active=[-1]), "must have 0 <= active <= inactive"),
        (changed(active=[2**80], inactive=[2**80], finish_time=2**90), "a finish_time of at most"),
        (changed(finish_time=2**31), "device 'x' must have a finish_time of at most 2147483647"),
        (pickle.dumps({1: {}, "1": {}}), "ids of devices must be distinct as texts, got 1 as int"),
        (pickle.dumps({}), "a trace must have at least one device, got none"),
        (pickle.dumps({1: {2}}, 4), "the operation EMPTY_SET at byte"),
        (pickle.dumps({1: b"a"}, 3), "the operation (SHORT_)?BINBYTES at byte"),
    ],
)
def test_wrong_pickles_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_fedscale(content).traces({})


def test_shared_lists_do_not_multiply() -> None:
    seconds = list(range(500))
    record = {"active": seconds, "inactive": seconds, "finish_time": 500}
    with pytest.raises(DataError, match="has more intervals than the file has bytes"):
        read_fedscale(pickle.dumps(dict.fromkeys(range(500), record)))


# FLASH


def flash(*lines: str, **devices: str) -> bytes:
    given = {"0": "\n".join(lines)} if lines else devices
    return json.dumps({k: {"guid": k, "messages": text} for k, text in given.items()}).encode()


def test_flash_states_follow_the_rule_from_the_first_midnight() -> None:
    content = flash(
        "2020-01-28 10:00:00\tscreen_lock",
        "2020-01-28 10:00:00\tbattery_charged_on",
        "2020-01-28 10:10:00\twifi",
        "2020-01-28 10:20:00\t4g",
        "2020-01-28 10:30:00.250\twifi",
        "2020-01-29 00:00:10\tscreen_unlock",
        "2020-01-29 00:00:20\tscreen_lock",
        "2020-01-29 00:00:30\tbattery_charged_off",
    )
    at = 10 * 3600
    assert table(read_flash(content).traces({})) == {
        "0": (
            [(at + 600, at + 1200), (at + 1800, 86_410), (86_420, 86_430)],
            (at, 86_430),
        )
    }
    assert table(read_flash(content, "charging").traces({}))["0"] == (
        [(at, 86_430)], (at, 86_430),
    )  # fmt: skip


@pytest.mark.parametrize("network", ["2g", "3g", "4g", "5g", "unknown"])
def test_every_other_network_ends_wifi(network: str) -> None:
    content = flash("2020-01-28 00:00:00\twifi", f"2020-01-28 00:01:00\t{network}")
    assert table(read_flash(content, "wifi").traces({})) == {"0": ([(0, 60)], (0, 60))}


def test_flash_takes_levels_of_the_battery_and_counts_what_it_skips() -> None:
    content = flash(
        "2020-01-28 00:00:00\t49.9%",
        "2020-01-28 00:01:00\t50.0%",
        "2020-01-28 00:02:00\t12%",
        "2020-02-30 00:02:00\t12%",
        "nonsense",
        "2020-01-28 00:03:00\tdanced",
        "",
    )
    collected = read_flash(content, "battery>=50")
    assert table(collected.traces({})) == {"0": ([(60, 120)], (0, 120))}
    assert collected.repairs == {"malformed": 3}


def test_flash_leaves_out_devices_without_events() -> None:
    collected = read_flash(flash(a="2020-01-28 00:00:00\twifi", b=""), "wifi")
    assert list(collected.traces({}).names) == ["a"]
    assert collected.repairs == {"devices_without_events": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is not readable JSON: Expecting value"),
        (b"[" * 200_000, "it is not readable JSON: it is nested too deeply"),
        (b"[]", "it must be a JSON object, got list"),
        (b'{"a": 1}', "device 'a' must have a text 'messages'"),
        (b'{"a": {"messages": 1}}', "device 'a' must have a text 'messages'"),
        (b'{"a": {"messages": "x"}}', "it must have a line 'date time TAB event', got none"),
        (b"{}", "it must have a line 'date time TAB event', got none"),
        (b'{"a": ' + b"1" * 5000 + b"}", "it is not readable JSON: Exceeds the limit"),
        (
            flash("0001-01-01 00:00:00\twifi", "2020-01-01 00:00:00\t4g"),
            "seconds must be in 0 to 2147483647",
        ),
    ],
)
def test_wrong_flash_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_flash(content, "wifi").traces({})


# Rules


@given(st.fixed_dictionaries({name: st.integers(0, 1) for name in (*STATES, "battery")}))
@pytest.mark.parametrize(
    ("rule", "expression"),
    [
        ("charging & wifi & locked", "charging and wifi and locked"),
        ("charging", "charging"),
        ("(screen_off | locked) & charging & wifi", "(screen_off or locked) and charging and wifi"),
        ("screen_off or locked and wifi", "screen_off or locked and wifi"),
        ("locked&wifi|battery >= 1", "locked and wifi or battery >= 1"),
    ],
)
def test_a_rule_is_the_expression_of_its_states(
    rule: str, expression: str, state: dict[str, int]
) -> None:
    assert parsed_rule(rule)(state) == bool(eval(expression, {}, dict(state)))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "got an end without a state in ''"),
        ("charging &", "got an end without a state in 'charging &'"),
        ("charging wifi", "got 'wifi' after its end in 'charging wifi'"),
        ("(charging", "got a parenthesis that is not closed"),
        ("charging)", r"got '\)' after its end"),
        ("loaded", "got 'loaded' in 'loaded'"),
        ("battery", "got 'battery' in"),
        ("battery>=x", "got '>' in"),
        ("__import__('os')", r"got .'. in \"__import__"),
        ("&", "got '&' in"),
        ("(" * 201, "at most 200 characters, got 201 characters"),
    ],
)
def test_wrong_rules_are_refused(rule: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parsed_rule(rule)


@given(st.text(alphabet="chargingwifi&|() 0>=batery", max_size=60))
def test_any_text_is_a_rule_or_refused(rule: str) -> None:
    try:
        parsed_rule(rule)({})
    except ConfigError as error:
        assert str(error).startswith("the rule must be made of ")  # noqa: PT017


# Flame


def trainer(text: object) -> bytes:
    return json.dumps({"hyperparameters": {"rounds": 5, KEY: text}}).encode()


INJECTED = "(0, 'AVL_TRAIN'), (300, 'UN_AVL')"


def test_trainers_leave_out_the_injected_start() -> None:
    files = [
        ("1", trainer(f"[{INJECTED}, (1053, 'AVL_TRAIN'), (7162, 'UN_AVL'), (9000, 'AVL_TRAIN')]")),
        ("2", trainer("[(5, 'UN_AVL'), (7, 'AVL_TRAIN'), (9, 'UN_AVL'), (9, 'AVL_TRAIN')]")),
        ("3", trainer(f"[{INJECTED}]")),
        ("4", trainer("[(0, 'AVL_TRAIN'), (300, 'AVL_TRAIN'), (400, 'UN_AVL')]")),
    ]
    collected = read_trainers(files)
    assert table(collected.traces({})) == {
        "1": ([(753, 6862)], (753, 8700)),
        "2": ([(7, 9)], (5, 9)),
        "3": ([], (0, 0)),
        "4": ([], (100, 100)),
    }
    assert collected.repairs == {"injected": 3, "same_second": 1, "devices_without_events": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "trainer '7': it is not readable JSON"),
        (b"{}", f"trainer '7': it must have a text hyperparameters.{KEY}"),
        (trainer([1]), "must have a text"),
        (trainer("[(1, 'AVL_TRAIN'), boom]"), "must be a list of .*, got '\\[ boom\\]'"),
        (trainer("[(1, 'AVL_EVAL')]"), "got 'AVL_EVAL'"),
        (trainer("__import__('os')"), 'got "__import__'),
        (
            trainer(f"[{INJECTED}, (200, 'UN_AVL')]"),
            r"device '7' has .* outside|in 0 to 2147483647",
        ),
    ],
)
def test_wrong_trainers_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_trainers([("7", content)]).traces({})


YAML = """description: traces
traces:
  device_001:
    states_2st:
    - - 0
      - AVL_TRAIN
    - - 300
      - UN_AVL
    - - 1053
      - AVL_TRAIN
    - - 7162
      - UN_AVL
    states_3st_50:
    - - 5
      - AVL_EVAL
    trainer: trainer_001
  device_002:
    states_2st:
    - - 60
      - 'AVL_TRAIN'
    - - 90
      - UN_AVL
"""


def test_the_yaml_file_has_the_states_of_two() -> None:
    assert table(read_yaml(YAML.encode()).traces({})) == {
        "device_001": ([(753, 6862)], (753, 6862)),
        "device_002": ([(60, 90)], (60, 90)),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it must have a list traces.DEVICE.states_2st, got none"),
        (YAML.replace("AVL_TRAIN", "ON", 1), "pairs of second and state, line 6 has none"),
        (YAML.replace("- - 300", "- - soon"), "pairs of second and state, line 7 has none"),
        (YAML.replace("    - - 300\n", ""), "pairs of second and state, line 7 has none"),
    ],
)
def test_wrong_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_yaml(text.encode())
    with pytest.raises(DataError, match="it is not UTF-8 text"):
        read_yaml(b"\xff")


@needs_phones
def test_the_phones_come_back_from_files_like_flames() -> None:
    traces, files = phones(), []
    for d, name in enumerate(traces.names):
        part = slice(traces.offsets[d], traces.offsets[d + 1])
        ends = list(zip(traces.on[part].tolist(), traces.off[part].tolist(), strict=True))
        events = {int(traces.seen_from[d]): "UN_AVL", int(traces.seen_to[d]): "UN_AVL"}
        events |= {on: "AVL_TRAIN" for on, _ in ends}
        events |= {off: "UN_AVL" for _, off in ends if off not in events}
        text = ", ".join(f"({s + 300}, '{state}')" for s, state in sorted(events.items()))
        files.append((name, trainer(f"[{INJECTED}, {text}]")))
    assert read_trainers(files).traces({}).digest == traces.digest


# Which form a file has


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.csv", b"{", "csv"),
        ("a.pkl", b"", "fedscale"),
        ("client_behave_trace", pickle.dumps({}), "fedscale"),
        ("old", pickle.dumps({}, 0), "fedscale"),
        ("state_traces.json", flash("2020-01-28 00:00:00\twifi"), "flash"),
        ("trainer_1.json", trainer("[]"), "flame"),
        ("a.yaml", b"", "flame"),
        ("phones", b"device,on,off\n", "csv"),
    ],
)
def test_the_form_is_found(tmp_path: Path, name: str, content: bytes, form: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert form_of(tmp_path / name) == form
    assert form_of(tmp_path) == "flame"


def test_a_folder_of_trainers_is_read_in_order(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        text = f"[({number}, 'AVL_TRAIN'), (50, 'UN_AVL')]"
        (tmp_path / f"trainer_{number}.json").write_bytes(trainer(text))
    (tmp_path / "notes.txt").write_text("x")
    traces = read_form(tmp_path, "flame", None).traces({})
    assert list(traces.names) == ["2", "9", "10"]
    assert traces.on.tolist() == [2, 9, 10]
    (tmp_path / "trainer_02.json").write_bytes(trainer("[(1, 'UN_AVL')]"))
    with pytest.raises(DataError, match="must hold each trainer once, got 'trainer_02.json' and"):
        read_form(tmp_path, "flame", None)


def test_a_folder_without_trainers_and_large_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"must hold files trainer_N\.json, got none"):
        read_form(tmp_path, "flame", None)
    with (tmp_path / "large.pkl").open("wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(DataError, match=r"at most 64 MB as fedscale, got 64\.0 MB"):
        read_form(tmp_path / "large.pkl", "fedscale", None)


def test_a_rule_is_for_flash_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="applies to the form flash alone.* rule for csv"):
        read_form(tmp_path / "a.csv", "csv", "charging")
