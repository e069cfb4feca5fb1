"""The package from outside: its exports, and the time and the side effects of its import."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fedgs

TREE = ast.parse(Path(fedgs.__file__).read_text(encoding="utf-8"))


def loaded_after(statement: str) -> dict[str, object]:
    """What a fresh interpreter has loaded after a statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict.fromkeys(json.loads(out.stdout.splitlines()[-1]))


def assigned(name: str) -> ast.expr:
    """The expression that `fedgs/__init__.py` assigns to a name."""
    nodes = [node for node in TREE.body if isinstance(node, ast.Assign)]
    return next(node.value for node in nodes if ast.unparse(node.targets[0]) == name)


def test_public_names_are_these() -> None:
    assert sorted(fedgs.__all__) == [
        "Availability", "AvailabilityFile", "CIFAR10", "CifarCNN", "Clients", "Data", "Evaluation",
        "Execution", "FashionCNN", "FashionMNIST", "FedGS", "Federation", "File", "Graph", "Ideal",
        "LSTM", "LabelCycle", "LargeLabelsFirst", "Leaf", "LessDataFirst", "LogNormal",
        "LogisticRegression", "MD", "MLP", "Memory", "Model", "MoreDataFirst", "Normalization",
        "Outcome", "PowerOfChoice", "ResNet8", "Results", "Sampler", "Selection", "SineLogNormal",
        "Solver", "Stopping", "Synthetic", "System", "Training", "Uniform", "View", "Wish",
        "__version__", "compare", "errors", "model", "on_record", "register", "sampler", "select",
    ]  # fmt: skip


def test_names_for_type_checkers_are_those_that_load_on_first_use() -> None:
    block = next(
        node
        for node in TREE.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    checked = {alias.name: f"{node.module}" for node in imports for alias in node.names}
    loaded = ast.literal_eval(assigned("_PUBLIC")) | dict.fromkeys(
        ast.literal_eval(assigned("_MODULES")), "fedgs"
    )
    assert checked == loaded
    assert sorted(ast.literal_eval(assigned("__all__"))) == sorted([*loaded, "__version__"])


def test_every_public_name_has_a_docstring_with_an_example() -> None:
    for name in fedgs.__all__:
        if name not in (
            "__version__",
            "Memory",
        ):  # a text and a type alias have no docstring of their own
            assert ">>> " in (getattr(fedgs, name).__doc__ or ""), name


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'fedgs' has no attribute 'nothing'"):
        fedgs.nothing  # noqa: B018
    assert dir(fedgs) == sorted(fedgs.__all__)


def test_importing_the_package_loads_neither_torch_nor_numba_nor_numpy() -> None:
    loaded = loaded_after("import fedgs")
    assert not loaded.keys() & {"torch", "numba", "flwr", "numpy", "pydantic"}


def test_selecting_a_cohort_does_not_load_torch() -> None:
    statement = (
        "import fedgs, numpy as np\n"
        "distance = np.ones((4, 4)) - np.eye(4)\n"
        "fedgs.select(distance, np.zeros(4, int), np.arange(4), 2)\n"
        "fedgs.FedGS()"
    )
    assert "torch" not in loaded_after(statement)


def test_the_command_line_prints_its_help_without_torch() -> None:
    assert "torch" not in loaded_after("import fedgs.cli.main as m; m._build()")


def test_importing_every_module_leaves_global_random_state_alone() -> None:
    statement = (
        "import random, numpy as np, torch\n"
        "def states():\n"
        "    numpy_state = np.random.get_state()[1].tolist()\n"
        "    return random.getstate(), numpy_state, torch.get_rng_state().tolist()\n"
        "before = states()\n"
        "import fedgs, fedgs.simulation, fedgs.experiments.compare\n"
        "import fedgs.sampling, fedgs.data, fedgs.models\n"
        "assert states() == before"
    )
    loaded_after(statement)


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; "  # as if it were not installed


def test_without_torch_the_error_says_what_to_install() -> None:
    statement = (
        WITHOUT_TORCH
        + "import fedgs\ntry:\n    fedgs.compare\nexcept ImportError as error:\n    print(error)"
    )
    out = subprocess.run(
        [sys.executable, "-c", statement], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "this needs 'torch', which is not installed: pip install 'fedgs[sim]'"


def test_without_torch_the_command_line_says_what_to_install() -> None:
    statement = (
        WITHOUT_TORCH + "sys.argv = ['fedgs', 'run']; from fedgs.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "fedgs: this needs 'torch', which is not installed: pip install 'fedgs[sim]'\n"
    )
