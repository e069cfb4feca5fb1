"""The site: it builds without a warning, loads nothing from elsewhere, and documents every name.

`FEDGS_SITE` names a folder with a built site; without it the site is built here.
"""

import html
import importlib.util
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import fedgs

pytest.importorskip("mkdocs")
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks, griffe_extension, settings = (
    script(name) for name in ("site_hooks", "site_griffe", "site_settings")
)
INTERFACE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("FEDGS_SITE"):
        return Path(given)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def documented(site: Path) -> set[str]:
    """The names with an anchor on some page, by the inventory of the site."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    return {line.split(" ")[0] for line in lines}


class Loaded(HTMLParser):
    """What a page loads: scripts, styles, pictures and frames."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(values.get("src") or "")
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(values.get("href") or "")


def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    class Loader(yaml.SafeLoader):
        """Reads tags of MkDocs as nothing."""

    Loader.add_multi_constructor("tag:", lambda loader, suffix, node: None)
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)

    def listed(entry: object) -> list[str]:
        if isinstance(entry, dict):
            return [page for value in entry.values() for page in listed(value)]
        if isinstance(entry, list):
            return [page for value in entry for page in listed(value)]
        return [str(entry)]

    made_by_hooks = {"changelog.md", "reference/settings.md"}
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    assert set(listed(config["nav"])) == pages | made_by_hooks


def test_every_public_name_is_on_a_page_of_the_interface(site: Path) -> None:
    modules = hooks.public_modules(INTERFACE)
    names = {name for listed in modules.values() for name in listed} - set(modules)
    assert {f"fedgs.{name}" for name in fedgs.__all__} - {"fedgs.__version__", "fedgs.errors"} < (
        names
    )
    for module in modules:
        names |= set(hooks.other_names(module, modules))
    assert len(names) > 150
    assert not names - documented(site)


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        parser = Loaded()
        parser.feed(page.read_text(encoding="utf-8"))
        addresses = [address for address in parser.addresses if address]
        assert addresses
        for address in addresses:
            assert not re.match(r"(https?:)?//", address), f"{page.name} loads {address}"
    for style in sorted(site.rglob("*.css")):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", style.read_text()), style.name


def test_the_search_index_can_be_read_from_the_file_system(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = {")
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "site/iframe-worker.js" in page


def test_doctests_become_blocks_and_other_text_stays() -> None:
    text = "One.\n\n>>> 1 + 1\n2\n\nTwo.\n\n    >>> kept"
    assert griffe_extension.fenced(text) == (
        "One.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nTwo.\n\n    >>> kept"
    )


def test_prompts_and_output_of_sessions_are_not_copied(site: Path) -> None:
    page = (site / "how-to" / "write-a-sampler.html").read_text(encoding="utf-8")
    assert '<span class="gp">&gt;&gt;&gt; </span><span class="c1"># fewest.py</span>' in page
    assert not re.search(r'<span class="o">&gt;&gt;', page)
    style = (site / "site" / "extra.css").read_text(encoding="utf-8")
    for part in ("gp", "go"):
        assert f".highlight code[data-md-copying] .{part}" in style


def test_a_variant_has_its_settings_as_signature(site: Path) -> None:
    page = (site / "reference" / "api" / "fedgs.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page)))
    assert "Training( *, rounds: int = 1000, proportion: float | None = None," in text
    assert "LessDataFirst( *, seed: int | None = None, empty_round: EmptyRound =" in text
    assert "AvailabilityFile( *, seed: int | None = None," in text and "path: str," in text
    assert not re.search(r"\*\*settings|family: str =|steady: bool =|BeforeValidator", text)


def test_the_page_of_settings_says_values_default_and_meaning() -> None:
    page = settings.settings_page()
    assert "| `training.decay` | number > 0 and ≤ 1 | `0.998` | eta is multiplied" in page
    assert '| `availability.empty_round` | `"redraw"`, `"skip"` | `"redraw"` |' in page
    assert page.count("| `availability.seed` |") == 1


def test_every_setting_has_a_meaning() -> None:
    rows = re.findall(r"^\| (`[^`]+`) .* \|([^|]*)\|$", settings.settings_page(), re.MULTILINE)
    assert len(rows) > 80
    assert [key for key, meaning in rows if not meaning.strip()] == []


def test_links_to_files_outside_the_documentation_become_text(site: Path) -> None:
    page = (site / "explanation" / "paper.html").read_text(encoding="utf-8")
    assert "examples/fedgs_in_one_file.py</code>" in page
    assert "href" not in re.findall(r"<[^<]*fedgs_in_one_file.py</code>", page)[0]
