"""import, export, embed, status."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_process import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def lines(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_export_and_import_restore_exactly(cli: Cli) -> None:
    cli("remember", "one", "--key", "k", "--meta", "n=1")
    cli("remember", "zwei 中文")
    file = cli.cwd / "memory.jsonl"
    told = cli("export", str(file), "--json").json
    assert (told["schema"], told["records"]) == ("otolith.export/1", 2)
    to_stdout = cli("export")
    assert to_stdout.out == file.read_text(encoding="utf-8")
    assert "wrote 2 records," in to_stdout.err
    assert cli("export", "-").out == to_stdout.out
    assert cli("export", "--json").out == to_stdout.out
    other = {"OTOLITH_HOME": str(cli.root / "other")}
    assert cli("import", str(file), "--json", env=other).json["created"] == 2
    assert cli("export", env=other).out == to_stdout.out
    again = cli("import", "-", "--json", input=to_stdout.out, env=other).json
    assert (again["schema"], again["unchanged"], again["failed"]) == ("otolith.import/1", 2, [])


def test_markdown_files_go_along_and_what_is_kept_is_told(cli: Cli) -> None:
    cli("remember", "one")
    (cli.home / "memory").mkdir()
    (cli.home / "memory" / "MEMORY.md").write_text("# Facts\n")
    (cli.home / "memory" / "link.md").symlink_to(cli.cwd)
    told = cli("export", "memory.jsonl")
    assert "wrote 1 record, 0 with vectors, 1 file, " in told.err
    assert "note: memory/link.md was left out: it is a symbolic link" in told.err
    other = {"OTOLITH_HOME": str(cli.root / "other")}
    assert "wrote 1 file, 0 unchanged" in cli("import", "memory.jsonl", env=other).err
    file = cli.root / "other" / "memory" / "MEMORY.md"
    assert file.read_text() == "# Facts\n"
    file.write_text("newer")
    answer = cli("import", "memory.jsonl", env=other, code=1)
    assert f"memory.jsonl:3: {file}: is there with other content and was kept" in answer.err
    assert "read 1 record: 0 new, 0 replaced, 1 unchanged, 1 failed" in answer.err
    assert file.read_text() == "newer"


def test_a_damaged_export_is_refused_and_taken_in_part_on_demand(cli: Cli) -> None:
    cli("remember", "one")
    cli("remember", "two")
    kept = cli("export").out.splitlines(keepends=True)
    file = cli.cwd / "cut.jsonl"
    file.write_text("".join(kept[:-2]), encoding="utf-8")
    other = {"OTOLITH_HOME": str(cli.root / "other")}
    answer = cli("import", str(file), code=1, env=other)
    assert answer.out == ""
    assert str(file) in answer.err
    assert cli("list", env=other, code=None).out == ""
    cli("import", str(file), "--partial", code=None, env=other)
    assert cli("list", env=other).out.count("\n") == 1


def test_strangers_lines(cli: Cli) -> None:
    file = cli.cwd / "notes.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"uid": "1", "m": {"text": "first note"}, "time": "2026-01-02T03:04:05Z"}\r\n'
        b"{broken\n"
        b"\n"
        b'{"uid": "2", "m": {"text": "  "}, "time": "2026-01-02T03:04:05Z"}\n'
        b'{"uid": "3", "m": {"text": "\xff"}, "time": 1767322800}\n'
        b'{"uid": "4", "m": {"text": "last note"}, "time": 1767322800}\n'
    )
    maps = ["--map", "summary=m.text", "--map", "occurred_at=time"]
    command = ["import", str(file), "--format", "jsonl", *maps, "--key", "uid"]
    answer = cli(*command, code=1)
    assert answer.out == ""
    told = [line for line in answer.err.splitlines() if line.startswith(f"{file}:")]
    assert [line.removeprefix(f"{file}:").partition(": ")[0] for line in told] == ["2", "4", "5"]
    assert cli("list").out.count("\n") == 2
    again = cli(*command, "--json", code=1).json
    assert again["schema"] == "otolith.import/1"
    assert again["created"] == 0
    assert [one["line"] for one in again["failed"]] == [2, 4, 5]
    assert all(one["message"] for one in again["failed"])
    assert cli("list").out.count("\n") == 2
    assert {one["trust"] for one in lines(cli("list", "--json").out)} == {"untrusted"}
    by_pipe = cli("import", "-", *command[2:], code=1, input=file.read_bytes())
    assert "\nstdin:4: " in by_pipe.err


def test_lines_that_were_there_are_unchanged(cli: Cli) -> None:
    (cli.cwd / "notes.jsonl").write_text(
        "".join(f'{{"id": {n}, "text": "note {n}", "colour": 1}}\n' for n in range(3))
    )
    command = ("import", "notes.jsonl", "--format", "jsonl", "--map", "summary=text")
    first = cli(*command).err
    assert "read 3 records: 3 new, 0 replaced, 0 unchanged, 0 failed\n" in first
    assert "note: colour is no field here and was left out of 3 lines; keep it with --map" in first
    assert "read 3 records: 0 new, 0 replaced, 3 unchanged, 0 failed\n" in cli(*command).err
    (cli.cwd / "notes.jsonl").write_text('{"id": 0, "text": "another", "colour": 2}\n')
    last = cli(*command).err
    assert "read 1 record: 0 new, 1 replaced, 0 unchanged, 0 failed\n" in last
    assert "left out of 1 line;" in last


def test_times_without_an_offset_are_read_in_the_zone_that_is_named(cli: Cli) -> None:
    (cli.cwd / "notes.jsonl").write_text(
        '{"id": 1, "summary": "time", "occurred_at": "2026-07-01T12:00"}\n'
        '{"id": 2, "summary": "date", "occurred_at": "2026-01-02"}\n'
        '{"id": 3, "summary": "offset", "occurred_at": "2026-01-02T03:04:05+01:00"}\n'
    )
    command = ("import", "notes.jsonl", "--format", "jsonl")

    def times(*options: str) -> dict[str, str]:
        cli(*command, *options, env={"TZ": "Asia/Shanghai"})
        return {str(one["summary"]): str(one["occurred_at"]) for one in lines(cli("list", "--json").out)}

    refused = cli(*command, code=1)
    assert "notes.jsonl:1: occurred_at: has no offset from UTC; found 2026-07-01T12:00; name" in refused.err
    assert "--zone" in refused.err
    assert "datetime" not in refused.err
    assert times("--zone", "Europe/Berlin") == {
        "time": "2026-07-01T12:00:00+02:00",
        "date": "2026-01-02T00:00:00+01:00",
        "offset": "2026-01-02T03:04:05+01:00",
    }
    assert times("--zone", "local")["date"] == "2026-01-02T00:00:00+08:00"
    assert "there is no zone 'Nowhere'" in cli(*command, "--zone", "Nowhere", code=1).err
    assert cli("import", "notes.jsonl", "--zone", "UTC", code=2).out == ""


def test_what_is_wrong_with_every_line_is_told_once(cli: Cli) -> None:
    cli("init")
    (cli.cwd / "notes.jsonl").write_text("".join(f'{{"text": "{n}", "n{n}": 1}}\n' for n in range(20)))
    command = ("import", "notes.jsonl", "--format", "jsonl")
    answer = cli(*command, code=1)
    told = [line for line in answer.err.splitlines() if line.startswith("notes.jsonl:")]
    assert len(told) == 1
    assert told[0].startswith("notes.jsonl:1: summary: is not there; the line has text, n0;")
    assert told[0].endswith("(and so in all 20 lines)")
    assert [one["line"] for one in cli(*command, "--json", code=1).json["failed"]] == list(range(1, 21))
    with (cli.cwd / "notes.jsonl").open("a") as file:
        file.write('{"summary": "good"}\n[]\n')
    answer = cli(*command, code=1)
    told = [line for line in answer.err.splitlines() if line.startswith("notes.jsonl:")]
    assert len(told) == 2
    assert told[0].endswith("(and so in 19 more lines, up to line 20)")
    assert told[1] == "notes.jsonl:22: line: is not a JSON object"


def test_a_pipe_reaches_a_new_home_line_by_line(cli: Cli) -> None:
    content = "{broken\n" * 3 + '{"id": 1, "summary": "good"}\n' + "{broken\n"
    told = cli("import", "-", "--format", "jsonl", "--json", input=content, code=1).json
    assert (told["read"], told["created"]) == (5, 1)
    assert [one["line"] for one in told["failed"]] == [1, 2, 3, 5]


def test_a_missing_file_is_named(cli: Cli) -> None:
    answer = cli("import", "nowhere.jsonl", code=1)
    assert "nowhere.jsonl" in answer.err
    assert cli("import", str(cli.cwd), "--json", code=1).error["message"]
    assert cli("remember", "x", "--body-file", "nowhere.txt", code=1).err.startswith("error: nowhere.txt: ")


def test_export_to_a_directory_that_is_not_there(cli: Cli) -> None:
    cli("remember", "x")
    assert "nowhere" in cli("export", "nowhere/memory.jsonl", code=1).err


def test_embed_without_embedder_says_what_to_do(cli: Cli) -> None:
    cli("remember", "x")
    answer = cli("embed", "--json", code=1)
    assert answer.out == ""
    assert answer.error["error"] == "EmbedderUnavailable"
    assert answer.error["message"] == "cannot embed: no embedder"
    assert "`otolith config set embedder openai:MODEL`" in answer.error["hint"]


def test_embed_makes_what_is_missing(cli: Cli) -> None:
    for n in range(5):
        cli("remember", f"memory {n}")
    told = cli("embed", "--batch", "2", "--json", env={"OTOLITH_EMBEDDER": "hash:32"}).json
    assert told["schema"] == "otolith.embed/1"
    assert (told["embedded"], told["remaining"], told["error"]) == (5, 0, None)
    assert "vector ran" in cli("recall", "memory", env={"OTOLITH_EMBEDDER": "hash:32"}).err


class _Down(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(500)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Down) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/v1"
        running.shutdown()
        thread.join()


def test_an_embedder_that_is_down_fails_no_write_and_is_said(cli: Cli, server: str) -> None:
    env = {
        "OTOLITH_EMBEDDER": "openai:m",
        "OTOLITH_EMBEDDER_URL": server,
        "OTOLITH_EMBEDDER_KEY": "sk-hidden",
    }
    cli("init")
    answer = cli("remember", "kept all the same", env=env)
    assert answer.err.startswith("warning: ")
    cli("embed", env={"OTOLITH_EMBEDDER": "none"}, code=1)
    asked = cli("recall", "kept", env=env)
    assert "kept all the same" in asked.out
    assert "vector did not run (" in asked.err
    failed = cli("embed", "--json", code=1, env=env)
    assert failed.json["remaining"] == 1
    assert failed.json["error"]
    assert failed.error["error"].startswith("Embedder")
    for log in ("info", "debug"):
        told = cli("embed", code=1, env={**env, "OTOLITH_LOG": log}) if log == "info" else failed
        assert "sk-hidden" not in told.err + told.out


def test_status(cli: Cli) -> None:
    cli("remember", "one", env={"OTOLITH_EMBEDDER": "hash:16"})
    cli("remember", "two", env={"OTOLITH_EMBEDDER": "none"})
    text = cli("status").out
    assert f"home        {cli.home} (given by OTOLITH_HOME)\n" in text
    assert "records     2\n" in text
    assert "vectors     1 of 2, 1 pending (make them with `otolith embed`)\n" in text
    told = cli("status", "--json").json
    assert told["schema"] == "otolith.status/1"
    assert (told["records"], told["coverage"]["vectorized"], told["trusted"], told["ignored"]) == (
        2,
        1,
        True,
        [],
    )
    assert told["home_source"] == "environment"


def test_status_without_an_embedder_says_what_to_do_once(cli: Cli) -> None:
    cli("remember", "one")
    answer = cli("status")
    assert (answer.out + answer.err).count("`otolith config set embedder openai:MODEL`") == 1
    assert "config " not in answer.out.replace("otolith config set", "")
    found = {"OTOLITH_HOME": None}
    (cli.cwd / ".otolith").mkdir()
    cli("remember", "x", env=found)
    assert "trust" not in cli("status", env=found).out + cli("status", env=found).err
    (cli.cwd / ".otolith/config.toml").write_text("lock_timeout = 5\n")
    assert "config      not trusted" in cli("status", env=found).out


def test_status_in_front_of_vectors_of_another_embedder(cli: Cli) -> None:
    cli("remember", "one", env={"OTOLITH_EMBEDDER": "hash:16"})
    cli("remember", "two", env={"OTOLITH_EMBEDDER": "hash:16"})
    answer = cli("status", env={"OTOLITH_EMBEDDER": "hash:32"})
    assert "            2 vectors of another model: hash:16\n" in answer.out
    assert all(line[11] == " " and line[12] != " " for line in answer.out.splitlines()), answer.out
    assert answer.err.count("with `otolith reindex`") == 1
    assert "otolith embed" not in answer.out
    assert cli("doctor", env={"OTOLITH_EMBEDDER": "hash:32"}).out.count("with `otolith reindex`") == 1
    asked = cli("recall", "one", env={"OTOLITH_EMBEDDER": "hash:32"})
    assert asked.err.count("not of hash:32") == 1
    assert "vector did not run (see the warning above)" in asked.err


def test_no_server_is_asked_that_nobody_named(cli: Cli) -> None:
    cli("remember", "one", "-q")
    env = {"OTOLITH_EMBEDDER": "openai:m", "HTTPS_PROXY": "http://127.0.0.1:9"}
    answer = cli("embed", env=env, code=1)
    assert "set embedder_url (a server of your own) or embedder_key (api.openai.com)" in answer.err
    assert "vector did not run (" in cli("recall", "one", env=env).err
