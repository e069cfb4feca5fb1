"""Without the extra, `fedgs.flower` says what to install; `fedgs` never imports Flower."""

import subprocess
import sys

HIDDEN = "import sys; sys.modules['flwr'] = None\n"


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_without_flower_says_what_to_install() -> None:
    code = HIDDEN + (
        "from fedgs.errors import MissingExtraError\n"
        "try:\n    import fedgs.flower\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    assert _run(code) == "this needs 'flwr', which is not installed: pip install 'fedgs[flower]'"


def test_importing_fedgs_does_not_import_flower() -> None:
    code = (
        "import sys, fedgs, fedgs.sampling\n"
        "print(any(name.split('.')[0] == 'flwr' for name in sys.modules))\n"
    )
    assert _run(code) == "False"
