"""What is installed: one wheel for every Python from 3.11 on, complete, built by pip alone."""

import shutil
import subprocess
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from otolith.embedders.prompts import PROMPTS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel as `pip install .` makes it, in an environment that has only pip."""
    place = tmp_path_factory.mktemp("wheel")
    venv.create(place / "venv", with_pip=True)
    pip = [str(place / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(place), str(ROOT)], check=True)
    (made,) = place.glob("*.whl")
    return made


def test_every_adapter_has_an_extra_and_a_row_in_the_docs() -> None:
    from otolith.embedders.naming import MODEL_KINDS

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs/embedders.md").read_text(encoding="utf-8")
    for kind in MODEL_KINDS:
        assert extras[kind]
        assert f"`otolith[{kind}]`" in next(line for line in page.splitlines() if f"| `{kind}:MODEL`" in line)
    for form in PROMPTS:
        assert f"| `{form}` |" in page


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs a Rust toolchain")
def test_the_wheel_is_complete_and_works_alone(wheel: Path, tmp_path: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"otolith/_core.abi3.so", "otolith/_core.pyi", "otolith/py.typed"} <= names
    sources = {
        f"otolith/{p.relative_to(ROOT / 'python/otolith')}" for p in (ROOT / "python/otolith").rglob("*.py")
    }
    assert sources <= names
    assert {name for name in names if name.endswith(".so")} == {"otolith/_core.abi3.so"}
    assert not [name for name in names if name.startswith(("tests/", "benches/"))]

    venv.create(tmp_path / "venv", with_pip=True)
    bin = tmp_path / "venv" / "bin"
    pip = [str(bin / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", str(wheel)], check=True)
    home = str(tmp_path / "home")
    tool = str(bin / "otolith")
    subprocess.run([tool, "--home", home, "remember", "installed and working"], check=True)
    shown = subprocess.run(
        [tool, "--home", home, "recall", "working"], check=True, capture_output=True, text=True
    )
    assert "installed and working" in shown.stdout
    asked = "from otolith.embedders import resolve; resolve('openai:m', url='http://127.0.0.1:9')"
    refused = subprocess.run([bin / "python", "-c", asked], capture_output=True, text=True, check=False)
    assert "otolith[openai]" in refused.stderr
