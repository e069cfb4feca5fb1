"""The types that a user's type checker sees: mypy checks programs that use the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedgs

SOURCE = Path(__file__).parents[1] / "src"

CONFIG = """
[mypy]
strict = true
follow_imports = silent
[mypy-torch.*,scipy.*,numba.*]
follow_imports = skip
"""

PROGRAM = """
import numpy as np
import numpy.typing as npt

import fedgs
from fedgs import (
    Availability,
    Clients,
    Federation,
    FedGS,
    Selection,
    View,
    model,
    register,
    sampler,
)
from torch import nn


@sampler("smallest-first")
def smallest_first(view: View, rng: np.random.Generator, *, reverse: bool = False) -> Selection:
    sizes = view.clients.data_sizes[view.available]
    order = np.argsort(-sizes if reverse else sizes)
    return Selection(view.available[order[: view.cohort_size]], weighting="equal")


@register("availability", "weekdays")
class Weekdays(Availability):
    rate: float = 0.5

    def rates(self, round: int, clients: Clients) -> npt.NDArray[np.float64]:
        return np.full(len(clients), self.rate if round % 7 < 5 else 0.0)


@model("wide")
def wide() -> nn.Module:
    return nn.Linear(4, 2)


x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
federation = Federation.from_arrays(x, y, client=np.array([0, 0, 1, 1]), test=(x, y))
try:
    results = fedgs.compare(
        federation,
        methods={
            "small": smallest_first,
            "paper": FedGS(alpha=1.0, graph=fedgs.Graph(similarity="functional")),
        },
        availability=Weekdays(rate=0.4),
        model=wide,
        training=fedgs.Training(rounds=2),
        evaluation={"every": 1},
    )
except fedgs.errors.UserError as error:
    print(error)
else:
    print(results.table(against="small"))
"""

EXPRESSIONS = {
    "program.smallest_first": (
        "def (view: fedgs.clients.View, rng: numpy.random._generator.Generator, "
        "*, reverse: bool =) -> fedgs.clients.Selection"
    ),
    "program.Weekdays().rate": "float",
    "program.results": "fedgs.experiments.study.Results",
    "program.results.table()": "fedgs.report.table.Table",
    "program.results.runs": "list[fedgs.report.run_view.Run]",
    "program.federation.clients": "fedgs.clients.Clients",
    "fedgs.FedGS().graph": "fedgs.graph.settings.Graph",
    "fedgs.Training().rounds": "int",
    "view.round": "int",
    "view.cohort_size": "int",
    "view.clients.names": "typing.Sequence[str | int]",
    "view.memory": "typing.Mapping[str, numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]]",
    "selection.status": "str | None",
    "fedgs.errors.ClientError(0, '').client": "int",
}
ARRAYS = [
    "view.available",
    "view.counts",
    "view.losses",
    "selection.clients",
    "view.clients.data_sizes",
]

MISTAKES = {
    "fedgs.nothing": 'Module has no attribute "nothing"',
    "fedgs.FedGS(alpha='much')": (
        'Argument "alpha" to "FedGS" has incompatible type "str"; expected "float"'
    ),
    "fedgs.Selection(view.available, weighting=3)": (
        'Argument "weighting" to "Selection" has incompatible type'
    ),
    "view.cohort": '"View" has no attribute "cohort"',
    "fedgs.compare(methods=['md'])": (
        'Missing positional argument "federation" in call to "compare"'
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mypy")
    made = tmp_path_factory.mktemp("types")
    start = (
        "import fedgs\nimport program\n\n\n"
        "def look(view: fedgs.View, selection: fedgs.Selection) -> None:\n"
    )
    names = [f"fedgs.{name}" for name in fedgs.__all__]
    shown = [f"    reveal_type({expression})\n" for expression in [*EXPRESSIONS, *ARRAYS, *names]]
    (made / "program.py").write_text(PROGRAM)
    (made / "shown.py").write_text(start + "".join(shown))
    (made / "mistakes.py").write_text(start + "".join(f"    {mistake}\n" for mistake in MISTAKES))
    (made / "mypy.ini").write_text(CONFIG)
    return made


def run_mypy(folder: Path, program: str) -> list[str]:
    """What mypy says of one program, a line each."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=mypy.ini",
        "--cache-dir=cache",
        "--hide-error-codes",
        program,
    ]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()[:-1]


def test_a_user_program_passes_strict_checks(folder: Path) -> None:
    assert run_mypy(folder, "program.py") == []


def test_names_and_attributes_have_types(folder: Path) -> None:
    revealed = re.findall(
        r'Revealed type is "(.*)"$', "\n".join(run_mypy(folder, "shown.py")), re.MULTILINE
    )
    expressions = [*EXPRESSIONS, *ARRAYS, *fedgs.__all__]
    assert len(revealed) == len(expressions)
    types = dict(zip(expressions, revealed, strict=True))
    assert {expression: types[expression] for expression in EXPRESSIONS} == EXPRESSIONS
    for array in ARRAYS:
        assert re.search(r"numpy.ndarray\[.*(signedinteger|float)", types[array]), (
            array,
            types[array],
        )
    assert [name for name in fedgs.__all__ if types[name] in ("Any", "object")] == []


def test_mistakes_are_found(folder: Path) -> None:
    lines = run_mypy(folder, "mistakes.py")
    for number, (mistake, message) in enumerate(MISTAKES.items(), start=6):
        assert any(line.startswith(f"mistakes.py:{number}: error: {message}") for line in lines), (
            mistake,
            lines,
        )
