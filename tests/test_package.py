"""The package as seen from outside: what it exports, how quickly it is imported, what importing it does not do."""

import json
import subprocess
import sys

import fedgs


def loaded_after(statement: str) -> dict[str, object]:
    """What a fresh interpreter has loaded after a statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict.fromkeys(json.loads(out.stdout.splitlines()[-1]))


def test_public_names_are_these() -> None:
    assert sorted(fedgs.__all__) == [
        "Availability", "AvailabilityFile", "CIFAR10", "CifarCNN", "Clients", "Data", "FashionCNN", "FashionMNIST",
        "FedGS", "Federation", "File", "Graph", "Ideal", "LabelCycle", "LargeLabelsFirst", "Leaf", "LessDataFirst",
        "LogNormal", "LogisticRegression", "MD", "Memory", "Model", "MoreDataFirst", "Normalization", "Outcome",
        "PowerOfChoice", "Sampler", "Selection", "SineLogNormal", "Synthetic", "Training", "Uniform", "View", "Wish",
        "__version__", "compare", "model", "register", "sampler", "select",
    ]  # fmt: skip


def test_every_public_name_resolves_and_has_an_example_or_a_docstring() -> None:
    for name in fedgs.__all__:
        value = getattr(fedgs, name)
        if name != "__version__":
            assert (value.__doc__ or "").strip(), name


def test_importing_the_package_loads_neither_torch_nor_numba_nor_numpy() -> None:
    loaded = loaded_after("import fedgs")
    assert not loaded.keys() & {"torch", "numba", "flwr", "numpy", "pydantic"}


def test_selecting_a_cohort_does_not_load_torch() -> None:
    statement = (
        "import fedgs, numpy as np; fedgs.select(np.ones((4, 4)) - np.eye(4), np.zeros(4, int), np.arange(4), 2); fedgs.FedGS()"
    )
    assert "torch" not in loaded_after(statement)


def test_the_command_line_prints_its_help_without_torch() -> None:
    assert "torch" not in loaded_after("import fedgs.cli.main as m; m._build()")


def test_importing_every_module_leaves_global_random_state_alone() -> None:
    statement = (
        "import random, numpy as np, torch\n"
        "before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())\n"
        "import fedgs, fedgs.simulation, fedgs.experiments.compare, fedgs.sampling, fedgs.data, fedgs.models\n"
        "after = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())\n"
        "assert before == after"
    )
    loaded_after(statement)


WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; "  # as if it were not installed


def test_without_torch_the_error_says_what_to_install() -> None:
    statement = WITHOUT_TORCH + "import fedgs\ntry:\n    fedgs.compare\nexcept ImportError as error:\n    print(error)"
    out = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "this needs 'torch', which is not installed: pip install 'fedgs[sim]'"


def test_without_torch_the_command_line_says_what_to_install() -> None:
    statement = WITHOUT_TORCH + "sys.argv = ['fedgs', 'run']; from fedgs.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedgs: this needs 'torch', which is not installed: pip install 'fedgs[sim]'\n"
