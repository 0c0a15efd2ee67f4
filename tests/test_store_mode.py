"""`store.mode` and `store.network`: who may use a home at the same time, and where it may lie."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import otolith
import pytest
from cli_process import Cli
from otolith import Memory, config

EXCLUSIVE = {"store.mode": "exclusive", "embedder": "none"}
SHARED = {"embedder": "none"}
# For opens that are to be refused: a write on a busy disk may take longer.
SOON = {"lock_timeout": 0.1}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_an_exclusive_memory_keeps_all_others_out_and_is_named(home: Path) -> None:
    with Memory.open(home, config=EXCLUSIVE) as memory:
        memory.remember("alone")
        for settings, read_only in ((SHARED, False), (SHARED, True), (EXCLUSIVE, False)):
            with pytest.raises(otolith.StoreLocked, match=r"store\.mode = exclusive") as caught:
                Memory.open(home, config=settings | SOON, read_only=read_only)
            error = caught.value
            assert (error.lock, error.holder_pid) == ("exclusive", os.getpid())
            assert error.holder_command
            assert error.holder_since
        memory.remember("not disturbed")
    with Memory.open(home, config=SHARED) as memory:
        assert len(memory) == 2
        with pytest.raises(otolith.StoreLocked, match=r"store\.mode = shared") as caught:
            Memory.open(home, config=EXCLUSIVE | SOON)
        assert caught.value.lock == "shared"
        # Read-only is plain reading whatever the mode.
        with Memory.open(home, config=EXCLUSIVE, read_only=True) as reader:
            assert len(reader) == 2


def test_another_program_hears_who_has_it(cli: Cli) -> None:
    cli("remember", "before")
    with Memory.open(cli.home, config=EXCLUSIVE):
        told = cli("recall", "before", code=1, env={"OTOLITH_LOCK_TIMEOUT": "0.1"}).err
        assert f"process {os.getpid()}" in told
        assert "store.mode = exclusive" in told
    assert "before" in cli("recall", "before").out


def test_threads_share_an_exclusive_memory(home: Path) -> None:
    for durability in ("full", "batched"):
        with (
            Memory.open(home, config=EXCLUSIVE | {"durability": durability}) as memory,
            ThreadPoolExecutor(4) as pool,
        ):
            before = len(memory)
            texts = [f"{durability} {n}" for n in range(80)]
            made = [episode.id for episode in pool.map(memory.remember, texts)]
            assert len(set(made)) == 80
            assert len(memory) == before + 80
            assert all(memory.get(id).id == id for id in made)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_exclusive_process_leaves_all_it_acknowledged(home: Path) -> None:
    code = """
import os, signal, sys
import otolith
memory = otolith.Memory.open(sys.argv[1], config={"store.mode": "exclusive", "embedder": "none"})
for n in range(20):
    memory.remember(f"number {n}")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code, str(home)], check=False).returncode == -9
    with Memory.open(home, config=SHARED) as memory:
        assert len(memory) == 20
        memory.remember("in the other mode")


def test_dotted_settings_in_config_toml(cli: Cli) -> None:
    cli("init")
    file = cli.home / "config.toml"
    before = '# mine\nlock_timeout = 5\n\n[store] # one of two\nmode = "exclusive" # fast\n'
    file.write_text(before)
    assert config.resolve(home=cli.home).source("store.mode") == f"{file}:5"
    assert cli("config", "get", "store.mode").out == "exclusive\n"
    cli("config", "set", "store.network", "allow")
    assert file.read_text().startswith(
        '# mine\nlock_timeout = 5\n\n[store] # one of two\nmode = "exclusive" # fast\n'
    )
    assert "store.network     allow  (" in cli("config", "show").out
    cli("config", "set", "store.mode", "shared")
    assert cli("config", "get", "store.mode").out == "shared\n"
    assert "# fast" in file.read_text()
    cli("config", "set", "store.mode", "--unset")
    cli("config", "set", "store.network", "--unset")
    assert file.read_text() == "# mine\nlock_timeout = 5\n\n"
    # Where there was no table yet, and with keys that have dots.
    cli("config", "set", "store.mode", "exclusive")
    assert config.resolve(home=cli.home).get("store.mode") == "exclusive"
    file.write_text('log = "info"\nstore.mode = "exclusive"\nlock_timeout = 4\n')
    found = config.resolve(home=cli.home)
    assert (found.get("store.mode"), found.source("store.mode")) == ("exclusive", f"{file}:2")
    cli("config", "set", "store.mode", "shared")
    assert file.read_text() == 'log = "info"\nstore.mode = "shared"\nlock_timeout = 4\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[store]\nmood = "shared"\n', ":2: there is no setting 'store.mood'; did you mean store.mode?"),
        ('[store]\nmode = "alone"\n', ":2: store.mode: expected one of shared, exclusive, found 'alone'"),
        ('store = "shared"\n', ":1: there is no setting 'store'"),
        ("[store.mode]\nx = 1\n", ": store.mode: expected one of shared, exclusive, found {'x': 1}"),
        ('"store.mode" = "exclusive"\n', ":1: store.mode stands in quotes; write it without them"),
    ],
)
def test_a_table_of_settings_is_checked(home: Path, text: str, told: str) -> None:
    home.mkdir()
    (home / "config.toml").write_text(text)
    with pytest.raises(otolith.InvalidInput) as caught:
        config.resolve(home=home)
    assert told in str(caught.value)


def test_the_environment_sets_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTOLITH_STORE_MODE", "exclusive")
    monkeypatch.setenv("OTOLITH_STORE_NETWORK", "allow")
    monkeypatch.setenv("OTOLITH_DURABILITY", "batched")
    found = config.resolve(home=home)
    for name, value in (("store.mode", "exclusive"), ("store.network", "allow"), ("durability", "batched")):
        assert found.get(name) == value
        assert found.source(name).startswith("environment OTOLITH_")
    with Memory.open(home), pytest.raises(otolith.StoreLocked):
        Memory.open(home, config={"lock_timeout": 0})


def test_a_home_that_was_found_may_not_set_them() -> None:
    # The working directory is one of the test's own.
    found = Path.cwd() / ".otolith"
    found.mkdir()
    (found / "config.toml").write_text(
        'durability = "batched"\n[store]\nmode = "exclusive"\nnetwork = "allow"\n'
    )
    settings = config.resolve()
    assert settings.home == found
    assert {one.name for one in settings.ignored} == {"durability", "store.mode", "store.network"}
    values = [settings.get(name) for name in ("durability", "store.mode", "store.network")]
    assert values == ["full", "shared", "refuse"]


def test_the_words_are_checked(home: Path) -> None:
    with pytest.raises(otolith.InvalidInput, match="expected one of shared, exclusive"):
        Memory.open(home, config={"store.mode": "alone"})
    assert not home.exists()
