"""A pipe is looked at early, and what a damaged file is worth is known before a home is made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_process import Cli
from otolith import InvalidInput, Memory, StoreError
from otolith.transfer import foreign
from test_cli_moving import lines


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def exported(cli: Cli, count: int = 3) -> list[str]:
    """The lines of an export of a home of its own."""
    with Memory.open(cli.root / "first", embedder=None) as memory:
        memory.remember_many([f"note {n}" for n in range(count)])
    return cli("export", "--home", str(cli.root / "first")).out.splitlines(keepends=True)


def endless(cli: Cli, text: str, *arguments: str) -> tuple[int, str, int]:
    """Exit code, stderr and how many bytes were taken of a pipe that never ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "otolith", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cli.env,
        cwd=cli.cwd,
        bufsize=0,
    )
    assert process.stdin is not None
    taken = 0
    piece = text.encode() * (65536 // len(text))
    try:
        while taken < 100 << 20:
            taken += process.stdin.write(piece) or 0
    except BrokenPipeError:
        pass
    out, err = process.communicate(timeout=60)
    assert out == b""
    return process.returncode, err.decode(), taken


@pytest.mark.parametrize("options", [(), ("--partial",)])
@pytest.mark.parametrize("made", [False, True])
def test_a_pipe_that_is_no_export_is_refused_at_its_first_line(
    cli: Cli, options: tuple[str, ...], made: bool
) -> None:
    if made:
        cli("init")
    code, err, taken = endless(cli, "y\n", "import", "-", *options)
    assert (code, err.startswith("error: src: <stdin> is no export of otolith")) == (1, True), err
    assert taken < 1 << 20
    assert cli.home.exists() == made


@pytest.mark.parametrize("made", [False, True])
def test_a_pipe_without_a_record_is_given_up(cli: Cli, made: bool) -> None:
    if made:
        cli("init")
    code, err, taken = endless(cli, "y\n", "import", "-", "--format", "jsonl")
    assert code == 1
    assert "src: none of the first 100000 lines can be imported. The last of them: line: is not JSON" in err
    assert taken < 2 << 20
    assert cli.home.exists() == made


def test_a_file_without_a_record_up_to_there_is_read_to_its_end(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_HOPELESS", 3)
    file = cli.cwd / "notes.jsonl"
    file.write_text("y\n" * 5 + '{"summary": "good"}\n')
    with Memory.open(cli.home, embedder=None) as memory:
        report = memory.import_(file, format="jsonl")
        assert (report.created, len(report.failed)) == (1, 5)
        read, write = os.pipe()
        os.write(write, file.read_bytes())
        os.close(write)
        with os.fdopen(read, "rb") as stream, pytest.raises(InvalidInput, match="none of the first 3 lines"):
            memory.import_(stream, format="jsonl")


def test_a_full_temporary_directory_is_named(cli: Cli, small: Path) -> None:
    first, *records, _ = exported(cli)
    long = json.loads(records[0])
    content = first + json.dumps({**long, "body": "x" * (1 << 20)}) + "\n" + records[1] * 2000
    broken = ("{" + "x" * (1 << 20) + "\n") * 20
    for options in ((), ("--partial",), ("--format", "jsonl")):
        given = broken if "jsonl" in options else content
        answer = cli("import", "-", *options, input=given, env={"TMPDIR": str(small)}, code=1)
        assert answer.err.startswith(f"error: {small}: No space left on device\nhint: what comes from a")
        assert "TMPDIR" in answer.err
        assert not cli.home.exists()


def test_no_temporary_directory_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    read, write = os.pipe()
    os.close(write)
    message = r"No usable temporary directory found; .*TMPDIR"
    with (
        Memory.open(home) as memory,
        os.fdopen(read, "rb") as stream,
        pytest.raises(StoreError, match=message),
    ):
        memory.import_(stream)


def test_a_damaged_export_of_no_use_makes_no_home(cli: Cli) -> None:
    first, *records, _ = exported(cli)
    file = cli.cwd / "cut.jsonl"
    for kept in ("", "{broken\n", records[0][:-20], '{"kind": "file", "path": "../x.md", "data": ""}\n'):
        file.write_text(first + kept)
        answer = cli("import", str(file), "--partial", code=1)
        assert "nothing can be imported, and no memory was made" in answer.err
        assert "is cut off after this line" in answer.err
        assert not cli.home.exists()
    file.write_text(first + "{broken\n" + records[1])
    assert cli("import", str(file), "--partial", "--json", code=1).json["created"] == 1
    assert cli.home.exists()


def test_an_export_that_has_all_it_announces_is_not_cut_off(cli: Cli) -> None:
    """As `records.jsonl` in lost+found, which has no last line."""
    first, *records, _ = exported(cli)
    file = cli.cwd / "records.jsonl"
    file.write_text("".join([first, *records]))
    assert "is cut off" in cli("import", str(file), code=1).err
    told = cli("import", str(file), "--partial", "--json").json
    assert (told["created"], told["failed"]) == (3, [])
    assert cli("import", str(file), "--partial", "--json").json["unchanged"] == 3
    file.write_text("".join([first, *records[:-1]]))
    assert "is cut off after this line" in cli("import", str(file), "--partial", code=1).err
    file.write_text("".join([first.replace('"files":0', '"files":1'), *records]))
    assert "is cut off after this line" in cli("import", str(file), "--partial", code=1).err
    without = json.loads(first)
    del without["records"]
    file.write_text("".join([json.dumps(without) + "\n", *records]))
    assert "is cut off after this line" in cli("import", str(file), "--partial", code=1).err
    file.write_text("".join([first, *records[:-1], "{broken\n"]))
    assert cli("import", str(file), "--partial", "--json", code=1).json["failed"][0]["line"] == 4


def test_a_number_of_thousands_of_digits_is_told_without_advice_for_programmers(cli: Cli) -> None:
    number = "9" * 5000
    first, *records, last = exported(cli)
    turns = '[{"speaker": "a", "dia_id": "D1:1", "text": "x"}]'
    document = f'{{"sample_id": "s", "n": {number}, "conversation": {{"session_1": {turns}}}}}'
    contents = {
        "otolith": first + records[0].replace("{", f'{{"n":{number},', 1) + last,
        "jsonl": f'{{"summary": "x", "n": {number}}}\n',
        "locomo": document,
    }
    for format, content in contents.items():
        answer = cli("import", "-", "--format", format, input=content, code=1)
        assert "is not JSON: a number has too many digits" in answer.err, answer
        assert "int_max_str_digits" not in answer.err


def test_stdout_that_is_closed_takes_no_answer(cli: Cli) -> None:
    cli("remember", "one")
    for command in ("verify --json", "export", "list", "status", "doctor --json", "--version"):
        line = f'exec "{sys.executable}" -m otolith {command} >&-'
        done = subprocess.run(
            ["sh", "-c", line], env=cli.env, cwd=cli.cwd, stderr=subprocess.PIPE, text=True, check=False
        )
        assert done.returncode == 1, command
        assert "the answer could not be written: stdout is closed" in done.stderr, command
    line = f'exec "{sys.executable}" -m otolith export memory.jsonl >&-'
    assert subprocess.run(["sh", "-c", line], env=cli.env, cwd=cli.cwd, check=False).returncode == 0
    assert len(lines(cli("list", "--json").out)) == 1
