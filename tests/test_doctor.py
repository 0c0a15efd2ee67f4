"""`otolith doctor` finds what is wrong with a home, says what to do, and changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli
from embedding_server import EmbeddingServer, free_port
from otolith import Memory
from otolith.config import SETTINGS
from otolith.maintenance import disk, doctor
from otolith.maintenance.disk import Disk
from otolith.maintenance.doctor import Finding, examine


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is alive and does nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def gone() -> int:
    """Number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def found(home: Path, word: str, **how: Any) -> Finding:
    """The one finding that says a word."""
    (finding,) = [one for one in examine(home, **how).findings if word in one.what]
    return finding


def snapshot(home: Path) -> dict[str, Any]:
    return {
        str(file): (file.lstat().st_mtime_ns, file.read_bytes() if file.is_file() else None)
        for file in sorted(home.rglob("*"))
    }


def test_a_home_that_is_well(cli: Cli) -> None:
    cli("remember", "hello")
    before = snapshot(cli.home)
    answer = cli("doctor")
    for name, setting in SETTINGS.items():
        value = "none" if setting.default is None else setting.default
        assert f"setting  {name} = {value} (default)\n" in answer.out
    assert "file format 2, record schema 1, Python 3." in answer.out
    assert f"home     {cli.home} (given by OTOLITH_HOME)\n" in answer.out
    assert "lock     free\n" in answer.out
    assert "store    format 2, 1 record, 0 vectors, " in answer.out
    assert "disk     " in answer.out
    assert " -> " not in answer.out
    assert "nothing to do" in answer.err
    content = cli("doctor", "--json").json
    assert content["schema"] == "otolith.doctor/1"
    assert (content["ok"], content["findings"], content["census"]["records"]) == (True, [], 1)
    assert content["settings"][0] == {"name": "embedder", "value": "auto", "source": "default"}
    assert snapshot(cli.home) == before


def test_where_settings_come_from_and_secrets_stay_secret(cli: Cli) -> None:
    cli("remember", "hello")
    cli("config", "set", "lock_timeout", "7")
    cli.env.update(OTOLITH_EMBEDDER_KEY="sk-very-secret", OTOLITH_EMBEDDER="none")
    for answer in (cli("doctor"), cli("doctor", "--json")):
        assert "sk-very-secret" not in answer.out + answer.err
    out = cli("doctor").out
    assert "setting  embedder = none (environment OTOLITH_EMBEDDER)\n" in out
    assert f"setting  lock_timeout = 7.0 ({cli.home / 'config.toml'}:1)\n" in out
    assert "setting  embedder_key = ******** (environment OTOLITH_EMBEDDER_KEY)\n" in out


def test_where_there_is_no_memory(cli: Cli) -> None:
    answer = cli("doctor")
    assert f"warning: {cli.home}: there is no memory -> make one with `otolith init`" in answer.out
    assert not cli.home.exists()


@pytest.mark.parametrize(
    ("config", "message"),
    [(b"lock_timeout = [", "is not TOML"), (b"\nembeder = 1\n", ":2: there is no setting 'embeder'")],
)
def test_settings_that_cannot_be_read_are_the_first_finding(cli: Cli, config: bytes, message: str) -> None:
    cli("remember", "hello")
    (cli.home / "config.toml").write_bytes(config)
    answer = cli("doctor", code=1)
    (told,) = [line for line in answer.out.splitlines() if line.startswith("error: ")]
    assert message in told
    assert "disk     " in answer.out
    content = cli("doctor", "--json", code=1).json
    assert content["findings"][0]["level"] == "error"
    assert (content["home"], content["settings"], content["status"]) == (str(cli.home), [], None)


def test_a_home_that_is_no_path(cli: Cli) -> None:
    answer = cli("doctor", code=1, env={"OTOLITH_HOME": " "})
    assert "home     not known" in answer.out
    assert "error: OTOLITH_HOME: " in answer.out


@pytest.mark.parametrize("content", [b"", b"no store", bytes(1 << 16)])
def test_a_store_that_cannot_be_opened_is_the_first_finding(cli: Cli, content: bytes) -> None:
    cli("remember", "hello")
    (cli.home / "episodes.redb").write_bytes(content)
    answer = cli("doctor", code=1)
    findings = [line for line in answer.out.splitlines() if " -> " in line]
    assert findings[0].startswith(f"error: {cli.home / 'episodes.redb'}: ")
    assert "setting  embedder = auto" in answer.out
    assert "lock     free" in answer.out


def test_every_row_is_read(home: Path) -> None:
    with Memory.open(home, embedder="hash:32") as memory:
        memory.remember_many(f"record number {number} MARKER{number:04d}" for number in range(50))
    content = bytearray((home / "episodes.redb").read_bytes())
    at = -1
    while (at := content.find(b"MARKER0020", at + 1)) >= 0:
        content[at + 3] ^= 1
    (home / "episodes.redb").write_bytes(content)
    diagnosis = examine(home)
    assert not diagnosis.ok
    assert diagnosis.findings[0].level == "error"
    assert "otolith verify" in diagnosis.findings[0].advice
    assert diagnosis.census is not None
    assert (diagnosis.census["records"], len(diagnosis.census["unreadable"])) == (49, 1)


def write_note(home: Path, process: int, since: datetime, state: str = "held") -> None:
    text = f"{state} {process} {since.isoformat()} otolith import"
    (home / "holder").write_text(f"{text:<255}\n")


def test_who_holds_the_lock(home: Path, sleeper: subprocess.Popen[bytes]) -> None:
    Memory.open(home).close()
    now = datetime.now(UTC)
    write_note(home, sleeper.pid, now)
    diagnosis = examine(home)
    assert diagnosis.holder is not None
    assert (diagnosis.holder["pid"], diagnosis.holder["command"]) == (sleeper.pid, "otolith import")
    assert diagnosis.findings == ()
    write_note(home, sleeper.pid, now - timedelta(seconds=90))
    assert found(home, "has held the write lock").level == "warning"
    write_note(home, sleeper.pid, now - timedelta(days=9), state="sole")
    assert found(home, "keeps the memory to itself").level == "note"
    write_note(home, sleeper.pid, now, state="last")
    assert examine(home).holder is None
    write_note(home, gone(), now)
    assert examine(home).holder is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_a_holder_that_is_stopped(home: Path, sleeper: subprocess.Popen[bytes]) -> None:
    Memory.open(home).close()
    write_note(home, sleeper.pid, datetime.now(UTC))
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    finding = found(home, "is stopped")
    assert finding.level == "error"
    assert f"kill -CONT {sleeper.pid}" in finding.advice


def test_others_who_may_look_in(home: Path) -> None:
    with Memory.open(home) as memory:
        memory.remember("hello")
    (home / "config.toml").write_text("")
    (home / "config.toml").chmod(0o644)
    assert examine(home).findings == ()  # nobody gets as far as the file
    home.chmod(0o755)
    (home / "episodes.redb").chmod(0o640)
    assert found(home, "others may look into it (mode 755)").advice.endswith(f"`chmod 700 {home}`")
    finding = found(home, "others may read")
    assert finding.advice.endswith(f"`chmod 600 {home / 'episodes.redb'} {home / 'config.toml'}`")


def test_what_keeps_forgotten_text_is_told(home: Path) -> None:
    with Memory.open(home) as memory:
        memory.remember("hello")
    (home / "memory").mkdir()
    (home / "memory/MEMORY.md.bak").write_text("earlier")
    (home / "episodes.redb.damaged-2026-01-02-030405").write_text("x")
    (home / "lost+found").mkdir()
    (home / "lost+found/episodes-1").write_text("x")
    (home / "notes.txt").write_text("x")
    (home / "lost+found/records.jsonl").write_text("x")
    (home / ".episodes.redb.1-1-0.new").write_text("x")
    for word, level, advice in (
        ("previous versions", "note", "delete them"),
        ("damaged-2026", "warning", "delete it"),
        ("lost+found/episodes-1", "warning", "delete it"),
        ("notes.txt", "note", "move it out"),
        (".episodes.redb.1-1-0.new: is being built, or was left", "note", "`otolith compact` removes it"),
        ("lost+found/records.jsonl", "warning", "`otolith import --partial`"),
    ):
        finding = found(home, word)
        assert finding.level == level, word
        assert advice in finding.advice, word
    levels = [finding.level for finding in examine(home).findings]
    assert levels == sorted(levels, reverse=True)  # warning before note
    assert examine(home).ok


@pytest.mark.parametrize(
    ("free", "level", "word"),
    [(1 << 20, "error", "its disk is full"), (256 << 20, "warning", "its disk is nearly full")],
)
def test_a_disk_that_fills(
    home: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str, word: str
) -> None:
    Memory.open(home).close()
    monkeypatch.setattr(doctor, "disk_of", lambda _: Disk("ext4", False, free, 1 << 40))
    finding = found(home, word)
    assert finding.level == level
    assert "make room" in finding.advice


def test_a_network_file_system(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Memory.open(home).close()
    monkeypatch.setattr(doctor, "disk_of", lambda _: Disk("nfs4", True, 1 << 39, 1 << 40))
    finding = found(home, "network file system (nfs4)")
    assert (finding.level, "local disk" in finding.advice) == ("error", True)


def test_the_disk_of_this_machine(tmp_path: Path) -> None:
    told = disk.disk_of(tmp_path)
    assert 0 < told.free <= told.total
    if Path("/proc/self/mountinfo").exists():
        assert told.file_system


def test_an_embedder_is_asked_only_when_that_was_said(cli: Cli, server: EmbeddingServer) -> None:
    cli.env.update(OTOLITH_EMBEDDER="openai:test", OTOLITH_EMBEDDER_URL=server.url)
    cli("remember", "hello", env={"OTOLITH_EMBEDDER": "none"})
    answer = cli("doctor")
    assert server.requests == []
    assert "embedder openai:test (environment OTOLITH_EMBEDDER); not asked, --online asks it\n" in answer.out
    assert "note: 1 records wait for their vector -> make them with `otolith embed`\n" in answer.out
    answer = cli("doctor", "--online")
    assert len(server.requests) == 1
    assert "; answers with 64 dimensions\n" in answer.out


def test_an_embedder_that_does_not_answer_is_an_error(cli: Cli) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    cli("remember", "hello")
    cli.env.update(OTOLITH_EMBEDDER="openai:test", OTOLITH_EMBEDDER_URL=url)
    assert cli("doctor").code == 0
    answer = cli("doctor", "--online", code=1)
    assert "error: embedder: " in answer.out
    assert url in answer.out


def test_settings_of_a_home_that_is_not_trusted(cli: Cli) -> None:
    home = cli.cwd / ".otolith"
    cli("--home", str(home), "remember", "hello")
    (home / "config.toml").write_text('embedder_url = "http://127.0.0.1:9/v1"\n')
    answer = cli("doctor", env={"OTOLITH_HOME": None})
    assert "warning: embedder_url = http://127.0.0.1:9/v1 is ignored: " in answer.out
    assert f"otolith trust {home}" in answer.out


def test_a_store_that_is_mostly_holes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(home) as memory:
        memory.remember_many(f"{number} " + "x" * 2000 for number in range(2000))
        assert examine(home).findings == ()
        memory.forget_where({"scope": ""})
    monkeypatch.setattr(doctor, "_SMALL", 1 << 20)
    assert "otolith compact" in found(home, "of content").advice
