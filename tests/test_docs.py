"""What the documents show is what happens: every block is run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from otolith.config import SETTINGS

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "docs/embedders.md", "docs/evaluation.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every fenced block of a language."""
    found = []
    for page in PAGES:
        for match in BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")):
            if match[1] == language:
                found.append((page, match[2]))
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with the examples in it, as in a clone."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    data = Path("python", "otolith", "evaluation", "data")
    shutil.copytree(ROOT / data, tmp_path / data)
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTOLITH_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return kept | {"PATH": path, "HOME": str(place), "XDG_CONFIG_HOME": str(place / "config")}


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_blocks_run(place: Path, page: str, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if page == "README.md":
        shown = [text for where, text in blocks("text") if where == page]
        assert done.stdout == shown[blocks("python").index((page, code))]


def test_shell_blocks_run_one_after_the_other(place: Path) -> None:
    scripts = [text for page, text in blocks("bash") if page == "README.md" and "make " not in text]
    assert len(scripts) >= 3
    for script in scripts:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=place,
            env=environment(place),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert (place / "diary").is_dir()
    assert (place / "my-agent" / "config.toml").is_file()


def test_the_make_targets_that_are_shown_exist() -> None:
    shown = set(
        re.findall(r"^make (\w+)", "".join(text for _, text in blocks("bash") + blocks("")), re.MULTILINE)
    )
    assert {"demo", "test"} <= shown
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in shown:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    for setting in SETTINGS.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{setting.name}` |"))
        assert f"`{setting.variable}`" in row
        default = f"{setting.default:g}" if isinstance(setting.default, float) else setting.default
        assert default is None or f"`{default}`" in row
