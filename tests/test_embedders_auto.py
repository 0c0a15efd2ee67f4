"""What `auto` finds on a machine, what it must not find, and what that costs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_process import Cli, cpu_seconds
from otolith import Memory
from otolith.embedders import auto, local
from tiny_models import cached, onnx_model, static_model

pytestmark = pytest.mark.adapters

STATIC = "minishlab/potion-base-8M"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "hf" / "hub"


@pytest.fixture
def fastembed_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "fastembed"))
    return tmp_path / "fastembed"


def test_nothing_is_there(hub: Path, home: Path) -> None:
    found = auto.find()
    assert found.spec is None
    assert [line.partition(":")[0] for line in found.tried] == ["fastembed", "model2vec"]
    assert str(hub) in found.tried[1]
    with Memory.open(home) as memory:
        status = memory.status()
        assert (status.embedder, status.embedder_tried) == (None, found.tried)
        assert status.embedder_source.startswith("not set; set one with `otolith config set embedder")
        assert memory.recall("x").legs["vector"].reason == "no embedder"


def test_a_model_that_is_there_is_used_and_said(hub: Path, home: Path) -> None:
    place = static_model(cached(hub, STATIC))
    with Memory.open(home) as memory:
        memory.remember("a dog barked")
        assert memory.recall("puppy")[0].text == "a dog barked"
        status = memory.status()
        assert status.embedder == f"model2vec:{STATIC}"
        assert status.embedder_source == f"auto; model2vec:{STATIC} is in {place}"
    with Memory.open(home) as memory:
        assert memory.status().embedder_source == "home"


def test_fastembed_goes_before_model2vec_and_many_languages_before_one(
    hub: Path, fastembed_cache: Path
) -> None:
    static_model(cached(hub, STATIC))
    assert auto.find().spec == f"model2vec:{STATIC}"
    onnx_model(cached(fastembed_cache, "Qdrant/all-MiniLM-L6-v2-onnx"))
    assert auto.find().spec == f"fastembed:{MINILM}"
    many = "paraphrase-multilingual-MiniLM-L12-v2"
    onnx_model(cached(fastembed_cache, f"Qdrant/{many}-onnx-Q"), "model_optimized.onnx")
    assert auto.find().spec == f"fastembed:sentence-transformers/{many}"


def test_the_home_goes_first_and_a_setting_before_it(
    hub: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    static_model(cached(hub, STATIC))
    with Memory.open(home, embedder="hash:32") as memory:
        memory.remember("x")
    with Memory.open(home) as memory:
        assert (memory.status().embedder, memory.status().embedder_tried) == ("hash:32", ())
    monkeypatch.setenv("OTOLITH_EMBEDDER", "none")
    with Memory.open(home) as memory:
        assert memory.status().embedder is None
    with Memory.open(home.parent / "new") as memory:
        assert memory.status().embedder is None


def test_a_home_that_was_found_keeps_what_auto_took_for_it(hub: Path, fastembed_cache: Path) -> None:
    """The first call in a project took the model, and the second did not trust the home that named it."""
    static_model(cached(hub, STATIC))
    Path(".otolith").mkdir()
    for _ in range(2):
        with Memory.open() as memory:
            memory.remember("a dog barked")
            assert memory.coverage().pending == 0
            assert memory.recall("puppy").legs["vector"].ran
    assert auto.may_take("model2vec", STATIC, "0123456789ab")
    assert not auto.may_take("model2vec", STATIC, "fff")
    assert not auto.may_take("model2vec", "some/other", None)
    assert not auto.may_take("sentence-transformers", STATIC, None)


def test_a_home_that_was_found_names_no_other_model(hub: Path) -> None:
    static_model(cached(hub, "some/other"))
    Path(".otolith").mkdir()
    with Memory.open(embedder="model2vec:some/other") as memory:
        memory.remember("a dog barked")
    with Memory.open() as memory:
        assert memory.status().embedder is None
        assert "is not trusted; look at it, then say `otolith trust" in memory.status().embedder_source


def test_half_a_download_is_passed_over(hub: Path) -> None:
    (static_model(cached(hub, STATIC)) / "tokenizer.json").unlink()
    assert auto.find().spec is None
    assert "no small model that is known" in auto.find().tried[1]


def test_a_library_that_is_missing_is_said(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static_model(cached(hub, STATIC))
    monkeypatch.setattr(auto, "installed", lambda library: False)
    assert auto.find() == (None, None, ("fastembed: not installed", "model2vec: not installed"))


def test_a_cache_that_another_user_made_is_not_trusted(
    fastembed_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fastembed's cache lies in /tmp, where anybody may be first."""
    onnx_model(cached(fastembed_cache, "Qdrant/all-MiniLM-L6-v2-onnx"))
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    if fastembed_cache.stat().st_uid == 0:
        os.chown(fastembed_cache, 12345, -1)
    found = auto.find()
    assert found.spec is None
    assert "fastembed: belongs to another user" in found.tried[0]


def test_a_model_that_cannot_be_loaded_fails_nothing(hub: Path, home: Path) -> None:
    directory = static_model(cached(hub, STATIC))
    (directory / "model.safetensors").write_bytes(b"not this")
    with Memory.open(home) as memory:
        episode = memory.remember("kept all the same")
        assert memory.recall("kept")[0].id == episode.id
        assert memory.coverage().pending == 1
        assert any("model2vec" in notice for notice in memory.status().notices)


def test_looking_costs_little_and_loads_nothing(hub: Path, home: Path) -> None:
    """Every call of the command line looks: fifty milliseconds would be felt."""
    found = "import sys\nfrom otolith.embedders import auto\nimport otolith\n"
    names = "('numpy', 'fastembed', 'model2vec', 'httpx', 'huggingface_hub')"
    look = f"{found}auto.find()\nassert not [n for n in {names} if n in sys.modules]\n"
    env = {**os.environ, "HOME": str(home)}
    bare = cpu_seconds(["-c", found], env)
    assert cpu_seconds(["-c", look], env) - bare < 0.05


def test_hubs_and_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HOME", raising=False)
    assert local.hub_cache() == Path.home() / ".cache/huggingface/hub"
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert local.hub_cache() == Path("/c/huggingface/hub")
    monkeypatch.setenv("HF_HOME", "/h")
    assert local.hub_cache() == Path("/h/hub")
    monkeypatch.setenv("HF_HUB_CACHE", "/k")
    assert local.hub_cache() == Path("/k")
    for revision in ("a" * 40, "b" * 40):
        (cached(tmp_path, "x/y", revision) / "f").write_text("1")
    assert (local.snapshot(tmp_path, "x/y", ["f"]) or Path()).name == "b" * 40
    assert (local.snapshot(tmp_path, "x/y", ["f"], "aaaa") or Path()).name == "a" * 40
    assert local.snapshot(tmp_path, "x/y", ["f"], "c") is None
    assert local.snapshot(tmp_path, "x/y", ["f", "g"]) is None
    assert local.snapshot(tmp_path, "../x", []) is None


def test_status_tells_it_on_the_command_line(tmp_path: Path, hub: Path) -> None:
    cli = Cli(tmp_path)
    cli("remember", "a dog barked")
    shown = cli("status").out
    assert "            model2vec: no small model that is known, in " in shown
    assert cli("status", "--json").json["embedder_tried"][1].startswith("model2vec: no small model")
    static_model(cached(hub, STATIC))
    shown = cli("status").out
    assert f"embedder    model2vec:{STATIC} (auto; " in shown
    assert "embedded 1" in cli("embed").err
