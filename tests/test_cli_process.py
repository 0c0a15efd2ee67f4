"""What may happen around a process: pipes, signals, encodings, closed streams, full disks."""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from cli_process import Cli
from embedding_server import EmbeddingServer, error, good

TEXT = "中文 📝 é"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "otolith", *arguments]


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "cp1252"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "1"},
    ],
    ids=lambda env: ",".join(f"{name}={value}" for name, value in env.items()),
)
def test_no_encoding_breaks_an_answer(cli: Cli, env: dict[str, str]) -> None:
    identifier = cli("remember", "-", input=TEXT, env=env).out.strip()
    for line in (["list"], ["recall", "é", "--explain"], ["show", identifier], ["status"], ["--help"]):
        cli(*line, env=env)
    told = cli("show", identifier, "--json", env=env)
    assert told.json["episodes"][0]["summary"] == TEXT
    listed = [json.loads(line) for line in cli("list", "--json", env=env).out.splitlines()]
    assert listed[0]["summary"] == TEXT
    assert TEXT in cli("export", env=env).out or "\\u4e2d" in cli("export", env=env).out
    assert cli("show", "中文", "--json", code=1, env=env).error["error"] == "InvalidInput"
    path = str(cli.cwd / "é中")
    assert cli("export", path, "--json", env=env).json["records"] == 1
    assert cli("import", path, "--json", env=env).json["unchanged"] == 1
    assert Path(path).is_file()
    assert cli("list", "--json", "--home", str(cli.root / "é"), code=1, env=env).error["error"]
    assert cli("show", "中文", code=1, env=env).err.startswith("error: ")


def test_text_that_is_no_text_is_an_error(cli: Cli) -> None:
    """Bytes that are not UTF-8 come from the shell as lone surrogates."""
    answer = cli("remember", b"caf\xe9", code=1)
    assert answer.err.startswith("error: summary")
    assert cli("remember", b"caf\xe9", "--json", code=1).error["error"] == "InvalidInput"


def test_reader_that_goes_away_is_no_traceback(cli: Cli) -> None:
    lines = "".join(
        json.dumps({"id": str(n), "summary": f"note {n} " + "x" * 200}) + "\n" for n in range(2000)
    )
    cli("import", "-", "--format", "jsonl", "--json", input=lines)
    for arguments in (["list"], ["list", "--json"], ["export"]):
        with subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.env, cwd=cli.cwd
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            err = process.stderr.read().decode()
            assert process.wait(60) == 141, err
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        assert "error" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_an_answer_that_cannot_be_written_is_an_error(cli: Cli) -> None:
    cli("remember", "x")
    with open("/dev/full", "wb") as full:
        for arguments in (["list"], ["version"], ["export"], ["--help"], ["show", "0", "--json"]):
            done = subprocess.run(
                command(*arguments),
                stdout=full,
                stderr=subprocess.PIPE,
                env=cli.env,
                cwd=cli.cwd,
                check=False,
            )
            assert done.returncode == 1, (arguments, done.stderr)
            assert b"Traceback" not in done.stderr
            assert b"Exception ignored" not in done.stderr
            assert b"error" in done.stderr


def test_closed_streams_neither_crash_nor_reach_the_store(cli: Cli) -> None:
    """A store opened as descriptor 1 or 2 would take messages for data."""
    cli("remember", "before")
    for closed in ("1", "2", "0", "0 1 2"):
        redirects = " ".join(f"{number}>&-" for number in closed.split())
        line = f'exec "{sys.executable}" -m otolith remember "with {closed} closed" {redirects}'
        assert (
            subprocess.run(["sh", "-c", line], env=cli.env, cwd=cli.cwd, check=False, timeout=60).returncode
            == 0
        )
        line = f'exec "{sys.executable}" -m otolith show nothing {redirects}'
        assert (
            subprocess.run(["sh", "-c", line], env=cli.env, cwd=cli.cwd, check=False, timeout=60).returncode
            == 1
        )
    assert cli("list").out.count("\n") == 5
    assert cli("status").code == 0


def test_interrupt_while_reading_exits_130(cli: Cli) -> None:
    with subprocess.Popen(
        command("remember", "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=cli.env, cwd=cli.cwd,
    ) as process:  # fmt: skip
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == b""
    assert err == b"error: interrupted\n"


def test_an_interrupted_import_keeps_whole_batches_and_goes_on_later(cli: Cli) -> None:
    lines = b"".join(json.dumps({"id": str(n), "summary": f"note {n}"}).encode() + b"\n" for n in range(3250))
    arguments = ("import", "-", "--format", "jsonl")
    with subprocess.Popen(
        command(*arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=cli.env, cwd=cli.cwd,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(lines)
        process.stdin.flush()
        give_up = time.monotonic() + 30
        while cli("list", "-n", "1", code=None).out == "" and time.monotonic() < give_up:
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines() == [b"made a new memory in " + os.fsencode(cli.home), b"error: interrupted"]
    kept = len(cli("list").out.splitlines())
    assert 0 < kept < 3250
    assert cli(*arguments, "--json", input=lines).json["created"] == 3250 - kept
    assert len(cli("list").out.splitlines()) == 3250


def test_embedding_that_waits_for_a_server_can_be_interrupted(cli: Cli, server: EmbeddingServer) -> None:
    cli("import", "-", "--format", "jsonl", input=b'{"summary": "one"}\n{"summary": "two"}\n')
    answers = [good]
    server.play = lambda request: (
        answers.pop()(request) if answers else error(429, "slow down", Retry_After="30")
    )
    env = {**cli.env, "OTOLITH_EMBEDDER": "openai:toy", "OTOLITH_EMBEDDER_URL": server.url}
    with subprocess.Popen(
        command("embed", "--batch", "1"), stderr=subprocess.PIPE, env=env, cwd=cli.cwd
    ) as process:
        assert process.stderr is not None
        assert b"is busy, HTTP 429: slow down" in process.stderr.readline()  # said, not only waited for
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert err == b"error: interrupted\n"
    assert cli("status", "--json", env={"OTOLITH_EMBEDDER": "openai:toy"}).json["coverage"]["vectorized"] == 1


def test_an_unexpected_error_is_one_line_unless_debugging(cli: Cli) -> None:
    (cli.cwd / "boom.py").write_text("raise RuntimeError('boom; really')\n")
    path = os.pathsep.join([str(cli.cwd), cli.env.get("PYTHONPATH", "")])
    code = (
        "import sys; import otolith.cli.version_command as v; "
        "v.command.callback = lambda: 1 / 0; from otolith.cli import main; sys.exit(main(['version']))"
    )
    quiet = subprocess.run(
        [sys.executable, "-c", code], env={**cli.env, "PYTHONPATH": path}, capture_output=True, check=False
    )
    assert quiet.returncode == 1
    assert quiet.stderr.startswith(b"error: unexpected ZeroDivisionError: division by zero\nhint: ")
    assert b"Traceback" not in quiet.stderr
    loud = subprocess.run(
        [sys.executable, "-c", code],
        env={**cli.env, "PYTHONPATH": path, "OTOLITH_LOG": "debug"},
        capture_output=True,
        check=False,
    )
    assert b"Traceback" in loud.stderr


def test_errors_are_one_line_and_a_hint(cli: Cli) -> None:
    cli("remember", "x")
    answer = cli("show", "ffffffff", code=1)
    assert answer.err.splitlines() == [
        "error: no record ffffffff",
        "hint: list what is there with `otolith list`",
    ]


@pytest.mark.parametrize("damage", ["directory", "rubbish"])
def test_a_store_that_is_none(cli: Cli, damage: str) -> None:
    cli.home.mkdir()
    store = cli.home / "episodes.redb"
    if damage == "directory":
        store.mkdir()
    else:
        store.write_bytes(b"this is no store" * 4096)
    for arguments in (["list"], ["remember", "x"], ["status"], ["init"]):
        answer = cli(*arguments, "--json", code=1)
        assert answer.out == ""
        assert answer.error["error"].startswith("Store")
        assert str(cli.home) in answer.error["message"]


def test_a_home_that_is_a_file(cli: Cli) -> None:
    cli.home.write_text("a file")
    for arguments in (["list"], ["remember", "x"], ["init"]):
        answer = cli(*arguments, code=1)
        assert str(cli.home) in answer.err
    assert cli.home.read_text() == "a file"


AS_NOBODY = """
import importlib, os, pkgutil, sys, tempfile, traceback, json, difflib, tomlkit, tomllib, platformdirs.unix
import otolith.cli
for module in pkgutil.walk_packages(otolith.__path__, "otolith."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
os.setgid(65534)
os.setuid(65534)
sys.exit(otolith.cli.main(sys.argv[1:]))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="becomes another user")
def test_a_user_without_permission_reads_what_he_may_and_is_told_the_rest() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        look_as_nobody(Cli(Path(directory)))


def look_as_nobody(cli: Cli) -> None:
    cli("remember", "a note for all")
    cli.home.chmod(0o755)
    for file in cli.home.iterdir():
        file.chmod(0o644)

    def as_nobody(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, *arguments],
            capture_output=True, text=True, env=cli.env, cwd="/", check=False, timeout=60,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    before = {file.name: file.read_bytes() for file in cli.home.iterdir()}
    code, out, err = as_nobody("recall", "note")
    assert (code, "a note for all" in out) == (0, True), err
    for arguments, path in [
        (["remember", "x"], cli.home / "episodes.redb"),
        (["config", "set", "lock_timeout", "3"], cli.home / "config.toml"),
        (["config", "set", "lock_timeout", "3", "--user"], cli.root / "me"),
        (["trust", str(cli.home)], cli.root / "me"),
        (["export", str(cli.root / "memory.jsonl")], cli.root / "memory.jsonl"),
        (["init", str(cli.root / "new")], cli.root / "new"),
    ]:
        (cli.home / "config.toml").write_text("") if arguments[0] == "trust" else None
        code, out, err = as_nobody(*arguments)
        assert (code, out) == (1, ""), (arguments, err)
        assert err.startswith("error: "), err
        assert str(path) in err
        assert "hint: " in err
    (cli.home / "config.toml").unlink()
    assert {file.name: file.read_bytes() for file in cli.home.iterdir()} == before
    cli.home.chmod(0o700)
    code, out, err = as_nobody("list")
    assert (code, out) == (1, "")
    assert f"error: {cli.home / 'config.toml'}: no permission\nhint: give this user access" in err


def run_on_a_terminal(cli: Cli, *arguments: str, env: dict[str, str]) -> tuple[int, str]:
    """Exit code and what the terminal showed; stdout and stderr are both the terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**cli.env, **env},
        cwd=cli.cwd,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    return process.wait(30), shown.decode("utf-8", "replace")


@pytest.mark.parametrize("rich", [True, False])
def test_progress_on_a_terminal_with_and_without_rich(cli: Cli, rich: bool) -> None:
    if not rich:
        (cli.cwd / "rich").mkdir()
        (cli.cwd / "rich" / "__init__.py").write_text("raise ImportError('not here')\n")
    long = "x" * 200
    (cli.cwd / "notes.jsonl").write_text(
        "".join(f'{{"id": "{n}", "summary": "note {n} {long}"}}\n' for n in range(3000))
    )
    env = {"TERM": "xterm", "PYTHONPATH": os.pathsep.join([str(cli.cwd), cli.env.get("PYTHONPATH", "")])}
    code, shown = run_on_a_terminal(cli, "import", "notes.jsonl", "--format", "jsonl", env=env)
    assert code == 0, shown
    assert "importing" in shown
    assert "read 3000 records: 3000 new" in shown
    assert "Traceback" not in shown
    code, shown = run_on_a_terminal(cli, "import", "notes.jsonl", "--format", "jsonl", "-q", env=env)
    assert (code, shown) == (0, "")
    code, shown = run_on_a_terminal(cli, "list", "-n", "1", env={**env, "COLUMNS": "90"})
    assert code == 0
    assert "note 2999" in shown
    assert len(shown.rstrip()) <= 90


def test_entry_point_and_module_are_the_same() -> None:
    from importlib.metadata import PackageNotFoundError, entry_points, version

    try:
        version("otolith")
    except PackageNotFoundError:
        pytest.skip("not installed")
    (script,) = entry_points(group="console_scripts", name="otolith")
    assert script.value == "otolith.cli:main"
