"""The public traces of phones, from a server on this machine."""

import gc
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.traces.material import intervals_of, needs_phones, phones

from fedgs.data.trace_files import _FLAME_DIGEST, FLAME_FILES, fetch_flame
from fedgs.errors import DataError, MissingExtraError
from fedgs.traces import Traces
from fedgs.traces.flame import KEY

# pooch leaves the response of a failed download to the garbage collection.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collected"),
]


@pytest.fixture
def collected() -> Iterator[None]:
    """What a test leaves is collected while its warnings are ignored."""
    yield
    gc.collect()


def write_trainers(folder: Path) -> None:
    """300 files like Flame's, each phone available for a minute."""
    for number, name in enumerate(FLAME_FILES):
        text = (
            f"[(0, 'AVL_TRAIN'), (300, 'UN_AVL'), ({400 + number}, 'AVL_TRAIN'), (900, 'UN_AVL')]"
        )
        (folder / name).write_text(json.dumps({"hyperparameters": {KEY: text}}))


@pytest.fixture
def files(served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is served instead of Flame's."""
    pytest.importorskip("pooch")
    folder, url = served
    write_trainers(folder)
    monkeypatch.setattr("fedgs.data.trace_files._FLAME_URL", url)
    return folder


def test_the_files_are_downloaded_checked_and_converted(
    files: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = r"have the wrong hash, so they were not kept: expected 82"
    with pytest.raises(DataError, match=wrong) as refusal:
        fetch_flame()
    assert "\n" not in str(refusal.value)
    on = np.arange(100, 400)
    span = {"seen_from": on, "seen_to": np.full(300, 600)}
    expected = Traces(on, np.full(300, 600), np.arange(301), names=range(300), **span).digest
    monkeypatch.setattr("fedgs.data.trace_files._FLAME_DIGEST", expected)
    traces = fetch_flame()
    assert list(traces.names) == [str(number) for number in range(1, 301)]
    assert traces.digest == expected
    assert traces.second_0 == 18 * 3600
    assert traces.origin["licence"] == "Apache-2.0; data made from FLASH, BSD-2-Clause"
    assert "6ef1133" in str(traces.origin["source"])
    assert "Downloading" not in capfd.readouterr().err


@pytest.mark.long
def test_a_truncated_file_is_one_sentence(files: Path) -> None:
    content = (files / "trainer_7.json").read_bytes()
    (files / "trainer_7.json").write_bytes(content[:40])
    with pytest.raises(DataError, match=r"flame: trainer '7': it is not readable JSON") as refusal:
        fetch_flame()
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_one_sentence(files: Path) -> None:
    (files / "trainer_7.json").unlink()
    with pytest.raises(
        DataError, match=r"trainer_7\.json could not be downloaded \(404"
    ) as refusal:
        fetch_flame()
    assert "\n" not in str(refusal.value)


def test_no_network_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch")
    monkeypatch.setattr("fedgs.data.trace_files._FLAME_URL", "http://127.0.0.1:9/")
    with pytest.raises(
        DataError, match=r"^http://127\.0\.0\.1:9/trainer_1\.json could not be down"
    ) as refusal:
        fetch_flame()
    assert "\n" not in str(refusal.value)


def test_an_answer_that_ends_early_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pooch")

    class Short(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"hyperparameters": ')
            self.close_connection = True

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Short) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            monkeypatch.setattr("fedgs.data.trace_files._FLAME_URL", url)
            with pytest.raises(DataError, match=r"trainer_1\.json could not be down") as refusal:
                fetch_flame()
        finally:
            server.shutdown()
            thread.join()
    assert "\n" not in str(refusal.value)


def test_without_pooch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"needs 'pooch'.*fedgs\[sim\]"):
        fetch_flame()


@needs_phones
def test_the_hash_is_that_of_the_phones(files: Path) -> None:
    traces = phones()
    for d, name in enumerate(traces.names):
        ends = intervals_of(traces, d)
        states = {int(traces.seen_from[d]): "UN_AVL", int(traces.seen_to[d]): "UN_AVL"}
        states |= {on: "AVL_TRAIN" for on, _ in ends}
        states |= {off: "UN_AVL" for _, off in ends if off not in states}
        given = [(0, "AVL_TRAIN"), (300, "UN_AVL")]
        given += [(second + 300, state) for second, state in sorted(states.items())]
        content = json.dumps({"hyperparameters": {KEY: str(given)}})
        (files / f"trainer_{name}.json").write_text(content)
    assert fetch_flame().digest == _FLAME_DIGEST
