"""From files of other programs to the array form."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fedgs.errors import ConfigError, DataError
from fedgs.traces.capacities import CAPACITIES, Capacities, stored_capacities
from fedgs.traces.child import CPU_SECONDS
from fedgs.traces.intervals import Traces, read_traces
from fedgs.traces.reading import FORMS, form_of
from fedgs.traces.rules import DEFAULT_RULE

__all__ = ["convert", "convert_capacities"]

T = TypeVar("T")
_VERSION = 1
_SECONDS = 120.0  # of waiting; the limit of processor time ends a reader earlier
_KNOWN = {
    "d0b6f81a01f0ea5f7ec432583f5afe93b1e72424db4c1affa88c484f15901662": (
        "FedScale client_behave_trace, 107,749 devices (Apache-2.0)"
    ),
}
_THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def convert(
    path: str | os.PathLike[str],
    *,
    form: str | None = None,
    rule: str | None = None,
    origin: Mapping[str, object] | None = None,
) -> Traces:
    r"""The traces of a file of another program.

    The file is read by another process with at most 1 GB of memory and 25 s of processor time.
    Nothing in it is executed.

    Args:
        path: of the file; for "flame" also a folder of files `trainer_N.json`.
        form: "csv", "fedscale", "flash" or "flame"; None: from the file's name and first bytes.
        rule: for "flash": when a phone is available; None: "charging & wifi & locked".
        origin: further facts of where the file comes from.

    Raises:
        DataError: no such file, or one that cannot be read as this form.
        ConfigError: an unknown form, or not a rule.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "phones.csv")
    ...     _ = path.write_text("device,on,off\na,0,60\nb,30,90\na,120,180\n")
    ...     traces = convert(path)
    >>> traces.names, traces.on.tolist(), traces.origin["form"]
    (('a', 'b'), [0, 120, 30], 'csv')
    """
    source = Path(path)
    if not (source.is_file() or source.is_dir()):
        reason = "is neither a file nor a folder" if source.exists() else "does not exist"
        raise DataError(f"{str(path)!r} {reason}")
    if form is not None and form not in FORMS:
        raise ConfigError(f"the form must be one of {', '.join(FORMS)}, got {form!r}")
    try:
        chosen = form_of(source) if form is None else form
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    traces = _read_in_child(source, chosen, rule, read_traces)
    facts = _facts(source, chosen, rule)
    return replace(traces, origin={**facts, **(origin or {}), **traces.origin})


def convert_capacities(path: str | os.PathLike[str]) -> Capacities:
    """The speeds of the devices in FedScale's `client_device_capacity`, read as by `convert`.

    Raises:
        DataError: no such file, or one that cannot be read.

    >>> import pickle
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "capacity.pkl")
    ...     _ = path.write_bytes(pickle.dumps({1: {"computation": 162.0, "communication": 5648}}))
    ...     convert_capacities(path).milliseconds.tolist()
    [162.0]
    """
    source = Path(path)
    if not source.is_file():
        reason = "is not a file" if source.exists() else "does not exist"
        raise DataError(f"{str(path)!r} {reason}")
    return _read_in_child(source, CAPACITIES, None, stored_capacities)


def _read_in_child(path: Path, form: str, rule: str | None, read: Callable[[Path], T]) -> T:
    # The paths of this process, since those of a new one depend on the working folder.
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from fedgs.traces.child import main; main(sys.argv[1:])"
    )
    with tempfile.TemporaryDirectory(prefix="fedgs-trace-") as folder:
        out = Path(folder, "traces.npz")
        command = [
            sys.executable,
            "-c",
            code,
            str(path.resolve()),
            form,
            json.dumps(rule),
            str(out),
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_THREADS},
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DataError(
                f"{str(path)!r} is not readable as {form}: it takes more than {_SECONDS:.0f} s"
            ) from None
        answer = _answer(done)
        if "error" in answer:
            kind = ConfigError if answer.get("kind") == "ConfigError" else DataError
            what = answer["error"]
            raise kind(
                what if kind is ConfigError else f"{str(path)!r} is not readable as {form}: {what}"
            )
        return read(out)


def _answer(done: "subprocess.CompletedProcess[bytes]") -> dict[str, str]:
    """What the process printed, or why it ended without an answer."""
    timed_out = -getattr(signal, "SIGXCPU", 0), -getattr(signal, "SIGKILL", 0)
    if done.returncode < 0 and done.returncode in timed_out:
        return {"error": f"it takes more than {CPU_SECONDS} s of processor time, or was stopped"}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    lines = done.stderr.decode(errors="replace").split("\n")
    reason = next((line for line in reversed(lines) if line.strip()), f"code {done.returncode}")
    return {"error": f"its reader ended early ({reason.strip()[:100]})"}


def _facts(path: Path, form: str, rule: str | None) -> dict[str, object]:
    """Where the traces come from."""
    facts: dict[str, object] = {"form": form, "converter": _VERSION, "source": path.name}
    if form == "flash":
        facts["rule"] = DEFAULT_RULE if rule is None else rule
    if path.is_file():
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        facts |= {"size": len(content), "sha256": digest, "known": _KNOWN.get(digest, "unknown")}
    return facts
