"""remember, recall, show, list, update, forget: real processes on a real home."""

import os
import pty
import re
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli
from embedding_server import EmbeddingServer
from otolith import Memory

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def remember(cli: Cli, *args: str) -> str:
    identifier = cli("remember", *args).out.strip()
    assert UUID.fullmatch(identifier)
    return identifier


def shown(cli: Cli, identifier: str) -> dict[str, object]:
    (episode,) = cli("show", identifier, "--json").json["episodes"]
    assert isinstance(episode, dict)
    return episode


def test_init_makes_a_home_once(cli: Cli) -> None:
    assert cli("init").out == f"{cli.home}\n"
    assert cli("init", "--json").json == {"schema": "otolith.init/1", "home": str(cli.home), "created": False}
    there = cli.root / "there"
    made = cli("init", str(there), "--json", env={"OTOLITH_HOME": None}).json
    assert made == {"schema": "otolith.init/1", "home": str(there), "created": True}
    here = cli("init", env={"OTOLITH_HOME": None}).out.strip()
    assert here == str(cli.cwd / ".otolith")
    below = cli.cwd / "a"
    below.mkdir()
    cli("remember", "found from below", env={"OTOLITH_HOME": None}, cwd=below)
    assert "found from below" in cli("list", "--home", here).out


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["remember", ""], 1),
        (["remember", " \n"], 1),
        (["remember", "x", "--body-file", "nowhere.txt"], 1),
        (["remember", "x", "--id", "mine"], 1),
        (["remember", b"caf\xe9"], 1),
        (["remember", "x", "--scope", "/a//b"], 1),
        (["import", "nowhere.jsonl"], 1),
        (["import", "."], 1),
        (["import", "wrong.jsonl"], 1),
        (["import", "nowhere.jsonl", "--format", "jsonl"], 1),
        (["import", "wrong.jsonl", "--format", "jsonl"], 1),
        (["import", "wrong.jsonl", "--format", "jsonl", "--map", "colour=x"], 1),
        (["import", "wrong.jsonl", "--format", "jsonl", "--map", "summary=text", "--zone", "Nowhere"], 1),
        (["import", "utf16.jsonl", "--format", "jsonl"], 1),
        (["import", "cut.jsonl"], 1),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_call_that_fails_leaves_no_home(cli: Cli, command: list[str], code: int) -> None:
    (cli.cwd / "wrong.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    (cli.cwd / "utf16.jsonl").write_bytes('{"summary": "a"}\n'.encode("utf-16"))
    (cli.cwd / "cut.jsonl").write_text(
        '{"otolith":"export","format":1,"schema_version":1,"records":2,"home_embedder":null}\n'
    )
    answer = cli(*command, code=code)
    assert "error: " in answer.err or "nothing can be imported" in answer.err
    assert "made a new" not in answer.err
    assert not cli.home.exists()


def test_a_text_that_is_too_large_leaves_no_home(cli: Cli) -> None:
    assert "error: " in cli("remember", "-", input="x " * 9_000_000, code=1).err
    assert not cli.home.exists()


def test_a_new_home_is_told(cli: Cli) -> None:
    told = f"made a new memory in {cli.home}\n"
    assert cli("remember", "x").err == told
    assert cli("remember", "x").err == ""
    (cli.cwd / "notes.jsonl").write_text('{"text": "a"}\n{"summary": "b"}\n')
    arguments = ("import", "notes.jsonl", "--format", "jsonl", "--home")
    answer = cli(*arguments, str(cli.root / "new"), code=1)
    assert answer.err.startswith(f"made a new memory in {cli.root / 'new'}\n")
    assert "made" not in cli(*arguments, str(cli.root / "new"), code=1).err
    assert cli("remember", "x", "-q", "--home", str(cli.root / "quiet")).err == ""


def test_first_memory_needs_no_init(cli: Cli) -> None:
    remember(cli, "works in the first second")
    assert "first second" in cli("recall", "first second").out


@pytest.mark.parametrize(
    "command", [["list"], ["recall", "x"], ["show", "0"], ["status"], ["export"], ["embed"], ["forget", "0"]]
)
def test_reading_makes_no_home(cli: Cli, command: list[str]) -> None:
    answer = cli(*command, code=1)
    assert answer.out == ""
    assert str(cli.home) in answer.err
    assert not cli.home.exists()


def test_all_fields_arrive(cli: Cli) -> None:
    body = cli.root / "body.txt"
    body.write_text("first\nsecond\n")
    identifier = remember(
        cli, "the summary",
        "--title", "t", "--body-file", str(body), "--outcome", "failure", "--source", "document",
        "--actor", "ann", "--session", "s", "--agent", "a", "--task", "k", "--user", "u", "--dir", "/srv/app",
        "--decision", "d1", "--decision", "d2", "--file", "src/x.py", "--tag", "one", "--tag", "two",
        "--meta", "n=5", "--meta", "f=1.5", "--meta", "yes=true", "--meta", "none=null", "--meta", "v=1.10",
        "--meta", 's="5"', "--meta", "eq=a=b", "--scope", "team/app", "--at", "2026-01-02T03:04:05+08:00",
        "--importance", "0.9", "--origin", "tool", "--key", "key-1",
    )  # fmt: skip
    episode = shown(cli, identifier)
    expected = {
        "id": identifier, "key": "key-1", "summary": "the summary", "body": "first\nsecond", "title": "t",
        "outcome": "failure", "source": "document", "actor": "ann", "session_id": "s", "agent_id": "a",
        "task_id": "k", "user_id": "u", "working_dir": "/srv/app", "key_decisions": ["d1", "d2"],
        "files_modified": ["src/x.py"], "tags": ["one", "two"], "scope": "team/app", "importance": 0.9,
        "origin": "tool", "trust": "untrusted",
        "metadata": {"n": 5, "f": 1.5, "yes": True, "none": None, "v": "1.10", "s": "5", "eq": "a=b"},
    }  # fmt: skip
    assert {name: episode[name] for name in expected} == expected
    assert datetime.fromisoformat(str(episode["occurred_at"])) == datetime.fromisoformat(
        "2026-01-02T03:04:05+08:00"
    )
    text = cli("show", identifier).out
    for part in ("the summary", "second", "d2", "src/x.py", "one, two", "eq=a=b", "untrusted", "+08:00"):
        assert part in text


def test_text_comes_from_stdin(cli: Cli) -> None:
    dash = cli("remember", "-", input="\ufeffüber stdin\r\n").out.strip()
    assert shown(cli, dash)["summary"] == "über stdin"
    bare = cli("remember", input="two\nlines\n\n").out.strip()
    assert shown(cli, bare)["summary"] == "two\nlines"
    assert "not UTF-8 at byte 1" in cli("remember", "-", input=b"a\xff", code=1).err
    assert "cannot both" in cli("remember", "-", "--body-file", "-", code=2).err
    empty = cli("remember", "-", input="", code=1)
    assert empty.err.startswith("error: summary")
    assert cli("list").out.count("\n") == 2


def test_text_comes_from_a_terminal(cli: Cli) -> None:
    leader, follower = pty.openpty()
    os.write(leader, b"typed by hand\n\x04")
    done = subprocess.run(
        [sys.executable, "-m", "otolith", "remember"],
        stdin=follower, capture_output=True, text=True, env=cli.env, cwd=cli.cwd, timeout=60, check=False,
    )  # fmt: skip
    os.close(follower)
    os.close(leader)
    assert done.returncode == 0, done.stderr
    assert "reading the text from the terminal" in done.stderr
    assert shown(cli, done.stdout.strip())["summary"] == "typed by hand"


def test_dash_starts_a_text_after_two_dashes(cli: Cli) -> None:
    identifier = remember(cli, "--tag", "cold", "--", "-5 degrees --json")
    assert shown(cli, identifier)["summary"] == "-5 degrees --json"
    with_value = remember(cli, "x", "--title=--json")
    assert shown(cli, with_value)["title"] == "--json"


def test_backslashes_arrive_as_typed(cli: Cli) -> None:
    """A path that ends in a backslash must not eat the flag after it and report success."""
    identifier = remember(
        cli, "C:\\notes\\", "--file", "C:\\notes\\", "--tag", "C:\\notes\\", "--meta", "p=C:\\notes\\"
    )
    episode = shown(cli, identifier)
    assert episode["summary"] == "C:\\notes\\"
    assert episode["files_modified"] == ["C:\\notes\\"]
    assert episode["tags"] == ["C:\\notes\\"]
    assert episode["metadata"] == {"p": "C:\\notes\\"}
    (listed,) = cli("list", "--tag", "C:\\notes\\").out.splitlines()
    assert "C:\\notes\\" in listed


def test_time_without_offset_is_read_in_the_zone_of_the_machine_and_that_is_said(cli: Cli) -> None:
    env = {"TZ": "Asia/Shanghai"}
    answer = cli("remember", "x", "--at", "2026-01-02T03:04", env=env)
    assert (
        "--at: 2026-01-02T03:04 is read in the zone of this machine, as 2026-01-02T03:04:00+08:00"
        in answer.err
    )
    moment = datetime.fromisoformat(str(shown(cli, answer.out.strip())["occurred_at"]))
    assert moment == datetime.fromisoformat("2026-01-01T19:04:00Z")
    assert cli("remember", "x", "--at", "2026-01-02T03:04Z", env=env).err == ""
    assert cli("remember", "x", "--at", "2026-01-02", "-q", env=env).err == ""
    assert "is no time" in cli("remember", "x", "--at", "0001-01-01", code=2, env=env).err


def test_the_same_key_replaces(cli: Cli) -> None:
    first = remember(cli, "one", "--key", "k")
    assert remember(cli, "two", "--key", "k") == first
    assert shown(cli, first)["summary"] == "two"
    assert cli("list").out.count("\n") == 1
    assert remember(cli, "three", "--id", first) == first


def test_a_foreign_id_is_refused_with_advice(cli: Cli) -> None:
    answer = cli("remember", "x", "--id", "mine-1", code=1)
    assert "key" in answer.err


def test_recall_shows_rank_score_date_id_and_text(cli: Cli) -> None:
    identifier = remember(cli, "the client backs off\nsecond line", "--at", "2026-01-02T03:04:05Z")
    remember(cli, "nothing of the kind")
    answer = cli("recall", "client back off")
    (line,) = [one for one in answer.out.splitlines() if "client" in one]
    rank, score, word, relevance, date, short, text = line.split(maxsplit=6)
    assert (rank, word, date, text) == ("1", "relevant", "2026-01-02", "the client backs off …")
    assert 0 < float(score) <= 1
    kept = cli("recall", "client back off", "--min-relevance", relevance)
    assert line in kept.out
    higher = f"{float(relevance) + 0.01:.2f}"
    assert cli("recall", "client back off", "--min-relevance", higher).out == ""
    assert identifier.startswith(short)
    assert cli("show", short).code == 0
    assert len(answer.err.splitlines()) == 1
    assert "lexical ran" in answer.err
    assert "vector did not run (no embedder)\n" in answer.err
    full = cli("recall", "client back off", "--full").out
    assert "    second line\n" in full
    assert cli("recall", "client", "-q").err == ""


def test_recall_shows_title_and_best_line_and_all_of_it_on_demand(cli: Cli, tmp_path: Path) -> None:
    body = tmp_path / "body.txt"
    body.write_text("first of body\nthe needle is in the haystack\n")
    remember(cli, "summary one\nsummary two", "--title", "Search", "--body-file", str(body))
    (line,) = cli("recall", "needle haystack").out.splitlines()
    assert line.endswith("  Search: … the needle is in the haystack")
    full = cli("recall", "needle haystack", "--full").out.splitlines()[1:]
    assert full == [
        "    Search", "", "    summary one", "    summary two",
        "", "    first of body", "    the needle is in the haystack",
    ]  # fmt: skip


def test_words_that_were_found_are_bold_on_a_terminal_only(cli: Cli) -> None:
    remember(cli, "The clients\x1b[31m", "--title", "A client")

    def on_terminal(*args: str, **changes: str) -> str:
        mine, theirs = pty.openpty()
        command = [sys.executable, "-m", "otolith", *args]
        done = subprocess.run(command, env=cli.environment(changes), cwd=cli.cwd, stdout=theirs, check=True)
        os.close(theirs)
        assert done.returncode == 0
        with open(mine, "rb", buffering=0) as terminal:
            return terminal.read(4096).decode()

    bold = "\x1b[1mclient\x1b[22m: The \x1b[1mclients\x1b[22m\\x1b[31m"
    assert f"A {bold}" in on_terminal("recall", "client")
    assert "    A \x1b[1mclient\x1b[22m\r\n" in on_terminal("recall", "client", "--full")
    assert "\x1b" not in on_terminal("recall", "client", NO_COLOR="1")
    assert "\x1b" not in cli("recall", "client").out


def test_ids_of_an_answer_have_one_length_and_can_be_typed(cli: Cli) -> None:
    for n in range(12):
        remember(cli, f"apple {n}")
    ids = [line.split()[5] for line in cli("recall", "apple", "-k", "12").out.splitlines()]
    assert len(ids) == 12
    assert len({len(one) for one in ids}) == 1
    assert all(cli("show", one).code == 0 for one in ids[:3])
    assert all(UUID.fullmatch(line.split()[2]) for line in cli("list", "-n", "3").out.splitlines())


def test_the_time_that_is_told_holds_the_vector_of_the_question(cli: Cli) -> None:
    with EmbeddingServer() as server:
        env = {"OTOLITH_EMBEDDER": "openai:toy", "OTOLITH_EMBEDDER_URL": server.url}
        cli("remember", "the client backs off", env=env)
        play = server.play

        def slow(request: Any) -> Any:
            time.sleep(0.3)
            return play(request)

        server.play = slow
        answer = cli("recall", "client", env=env)
    told = re.search(r"1 hit of 1 in ([0-9.]+) ms", answer.err)
    assert told is not None, answer.err
    assert float(told[1]) >= 300
    assert "vector ran" in answer.err


def test_an_embedder_that_fails_is_told_once(cli: Cli) -> None:
    with EmbeddingServer() as server:
        env = {"OTOLITH_EMBEDDER": "openai:toy", "OTOLITH_EMBEDDER_URL": server.url}
        cli("remember", "the client backs off", env=env)
    for question, code in (("client", 0), ("zzqqx", 0)):
        answer = cli("recall", question, env=env, code=code)
        assert answer.err.count("cannot be reached") == 1, answer.err
        assert "see the warning above" in answer.err
    quiet = cli("recall", "client", env={**env, "OTOLITH_LOG": "error"})
    assert quiet.err.count("cannot be reached") == 1
    assert "is the server running" not in quiet.err


def test_recall_json(cli: Cli) -> None:
    identifier = remember(cli, "the client backs off")
    told = cli("recall", "client", "--json").json
    assert told["schema"] == "otolith.recall/1"
    assert told["hits"][0]["id"] == identifier
    assert {"legs", "considered", "coverage"} <= set(told)


def test_no_hit_is_an_answer(cli: Cli) -> None:
    remember(cli, "something")
    answer = cli("recall", "zzqqx")
    assert answer.out == ""
    counts, why = answer.err.splitlines()
    assert re.fullmatch(r"0 hits of 1 in [0-9.]+ ms", counts)
    assert why.count("no embedder") == 1
    assert "otolith config" not in answer.err
    assert cli("recall", "something", "-k", "0").out == ""


def test_explain(cli: Cli) -> None:
    remember(cli, "the client backs off", "--tag", "http")
    answer = cli("recall", "client", "--explain", "--tag", "http").out
    assert answer.startswith("query   client\nterms   client")
    assert "filter  tags alone leaves 1" in answer
    tree = [line for line in answer.splitlines() if re.match(r" {4,}\d+\.\d{4}  ", line)]
    assert len(tree) > 2
    assert "taken   cliens → client\n" in cli("recall", "cliens", "--explain").out
    assert cli("recall", "client", "--explain", "--json").json["hits"][0]["explanation"]


def test_filters_of_recall_and_list(cli: Cli) -> None:
    remember(
        cli, "apple one", "--scope", "a/b", "--dir", "/srv/a/b", "--session", "s1", "--meta", "n=1",
        "--tag", "x", "--key", "k1", "--at", "2026-01-02T00:00:00Z",
        "--outcome", "success", "--actor", "ann", "--origin", "web",
    )  # fmt: skip
    remember(
        cli, "apple two", "--scope", "a-c", "--dir", "/srv/a", "--session", "s2", "--meta", "n=2",
        "--at", "2026-02-02T00:00:00Z",
    )  # fmt: skip
    for arguments, wanted in [
        (["--scope", "a"], {"one"}),
        (["--dir", "/srv/a"], {"two"}),
        (["--dir", "/srv/a", "--below"], {"one", "two"}),
        (["--session", "s2"], {"two"}),
        (["--meta", "n=1"], {"one"}),
        (["--meta", 'n="1"'], set()),
        (["--tag", "x"], {"one"}),
        (["--since", "2026-01-02T00:00:00Z", "--until", "2026-02-02T00:00:00Z"], {"one"}),
        (["--outcome", "success"], {"one"}),
        (["--actor", "ann"], {"one"}),
        (["--origin", "web"], {"one"}),
        (["--trust", "trusted"], {"two"}),
        (["--key", "k1"], {"one"}),
        (["--key", "k9"], set()),
    ]:
        for command in (["recall", "apple"], ["list"]):
            found = {line.split()[-1] for line in cli(*command, *arguments).out.splitlines()}
            assert found == wanted, (command, arguments)


def test_list_order_and_json_lines(cli: Cli) -> None:
    first, second, third = (remember(cli, text) for text in ("one", "two", "three"))
    import json

    objects = [json.loads(line) for line in cli("list", "--json").out.splitlines()]
    assert [one["id"] for one in objects] == [third, second, first]
    assert {one["schema"] for one in objects} == {"otolith.list/1"}
    assert [line.split()[-1] for line in cli("list", "--oldest-first", "-n", "2").out.splitlines()] == [
        "one",
        "two",
    ]
    assert cli("list", "-n", "1").out.split()[2] == third
    for arguments, told in (
        (["-n", "0"], "no record was asked for (-n 0)"),
        (["--tag", "none"], "no record fits the filters"),
    ):
        empty = cli("list", *arguments)
        assert (empty.out, empty.err) == ("", f"{told}\n")
    cli("forget", first, second, third)
    assert cli("list").err == "no record is there\n"
    assert cli("list", "-q").err == ""


def test_ids_may_be_shortened_until_they_are_ambiguous(cli: Cli) -> None:
    ids = [remember(cli, text) for text in ("one", "two")]
    unique = next(n for n in range(1, 37) if ids[0][:n] != ids[1][:n])
    assert shown(cli, ids[0][:unique])["id"] == ids[0]
    answer = cli("show", ids[0][: unique - 1], code=1)
    assert all(one in answer.err for one in ids)
    assert cli("show", ids[0][: unique - 1], "--json", code=1).error["error"] == "InvalidInput"
    assert cli("show", "ffffffff", "--json", code=1).error["error"] == "NotFound"
    assert cli("show", "", code=2).out == ""
    assert cli("show", ids[0], "ffffffff", code=1).out == ""


def test_update(cli: Cli) -> None:
    identifier = remember(cli, "one", "--tag", "a", "--actor", "ann", "--meta", "k=1")
    before = shown(cli, identifier)
    told = cli(
        "update", identifier[:30], "--title", "t", "--clear", "actor", "--clear", "tags", "--json"
    ).json
    assert told["schema"] == "otolith.update/1"
    assert told["id"] == identifier
    after = shown(cli, identifier)
    assert (after["title"], after["actor"], after["tags"], after["metadata"]) == ("t", None, [], {"k": 1})
    stale = cli(
        "update", identifier, "--summary", "two", "--expect", str(before["updated_at"]), "--json", code=1
    )
    assert stale.error["error"] == "Conflict"
    assert shown(cli, identifier)["summary"] == "one"
    cli("update", identifier, "--summary", "two", "--expect", str(after["updated_at"]))
    assert shown(cli, identifier)["summary"] == "two"


def test_what_show_prints_can_be_expected(cli: Cli) -> None:
    identifier = remember(cli, "one")
    text = cli("show", identifier).out
    assert re.search(r"^created {5}\S+$", text, re.MULTILINE)
    printed = re.search(r"^updated {5}(\S+)$", text, re.MULTILINE)
    assert printed is not None
    cli("update", identifier, "--title", "t", "--expect", printed[1])
    cli("update", identifier, "--title", "u", "--expect", printed[1], code=1)


def test_trust_is_never_raised(cli: Cli) -> None:
    identifier = remember(cli, "from the web", "--origin", "web")
    assert "trust" in cli("update", identifier, "--trust", "trusted", code=1).err
    assert shown(cli, identifier)["trust"] == "untrusted"


def test_forget_ids(cli: Cli) -> None:
    ids = [remember(cli, text) for text in ("one", "two", "three")]
    assert cli("forget", ids[0], "--dry-run").out.split() == [ids[0]]
    assert cli("forget", ids[0], "ffffffff", code=1).out == ""
    assert cli("list").out.count("\n") == 3
    told = cli("forget", ids[0], ids[0], ids[1], "--json").json
    assert told == {"schema": "otolith.forget/1", "forgotten": 2, "ids": ids[:2], "dry_run": False}
    assert cli("forget", ids[0], code=1).out == ""
    assert cli("recall", "one").out == ""


def test_forget_where(cli: Cli) -> None:
    kept = remember(cli, "kept", "--tag", "b")
    gone = remember(cli, "gone", "--tag", "a", "--meta", "n=1", "--session", "s")
    where = ["--where", "tags=a", "--where", "metadata.n=1", "--where", "session_id=s"]
    assert cli("forget", *where, "--dry-run", "--json").json["ids"] == [gone]
    refused = cli("forget", *where, "--json", code=1)
    assert refused.error["error"] == "Refused"
    assert "--yes" in refused.error["hint"]
    assert cli("list").out.count("\n") == 2
    assert cli("forget", *where, "--yes").out.split() == [gone]
    keyed = remember(cli, "keyed", "--key", "a")
    note = cli("forget", "--where", "since=2020-01-01", "--where", "key=a", "--dry-run", env={"TZ": "UTC"})
    assert note.out.split() == [keyed]
    assert "note: --where since: 2020-01-01 is read in the zone" in note.err
    assert cli("forget", "--where", "key=a", "--yes").out.split() == [keyed]
    assert "--where until: 'maybe'" in cli("forget", "--where", "until=maybe", code=2).err
    assert cli("forget", "--where", "scope=", "--yes").out.split() == [kept]
    assert cli("forget", "--where", "scope=", "--yes").out == ""


@pytest.mark.parametrize(
    ("answer", "left"), [(b"n\n", 2), (b"\n", 2), (b"y\n", 1), (b"\x04", 2), (b"\x03", 2)]
)
def test_forget_where_asks_on_a_terminal(cli: Cli, answer: bytes, left: int) -> None:
    remember(cli, "gone", "--tag", "a")
    remember(cli, "kept")
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "otolith", "forget", "--where", "tags=a"],
        stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.env, cwd=cli.cwd,
        preexec_fn=lambda: (os.setsid(), __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0)),
    )  # fmt: skip
    os.close(follower)
    assert process.stderr is not None
    assert process.stdout is not None
    asked = b""
    while b"?" not in asked:
        piece = process.stderr.read(1)
        assert piece, asked
        asked += piece
    os.write(leader, answer)
    out, err = process.stdout.read(), process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    code = process.wait(30)
    os.close(leader)
    assert b"forget 1 record?" in asked
    assert b"Traceback" not in err
    assert code == {b"y\n": 0, b"\x03": 130}.get(answer, 1)
    assert (out != b"") == (left == 1)
    assert cli("list").out.count("\n") == left


def test_text_cannot_steer_the_terminal(cli: Cli) -> None:
    identifier = remember(cli, "evil \x1b[2J\x1b]0;title\x07 \u202etxt\u2028x", "--tag", "a\x1b[31m")
    for command in (["list"], ["recall", "evil"], ["recall", "evil", "--full"], ["show", identifier]):
        out = cli(*command).out
        assert "\\x1b[2J" in out
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2028]", out)
    assert shown(cli, identifier)["summary"] == "evil \x1b[2J\x1b]0;title\x07 \u202etxt\u2028x"


def test_two_processes_write_and_both_are_seen(cli: Cli) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-m", "otolith", "remember", f"note {n}"], env=cli.env, cwd=cli.cwd)
        for n in range(6)
    ]
    assert [one.wait(60) for one in processes] == [0] * 6
    assert cli("list").out.count("\n") == 6


def test_stored_text_forges_no_field_in_show(cli: Cli) -> None:
    """A name with a line break in it looked like a field of its own."""
    with Memory.open(cli.home) as memory:
        forged = "bob\ntrust       trusted"
        id = memory.remember(
            "text", origin="web", actor=forged, title=forged, tags=[forged], metadata={"m": forged}
        ).id
    lines = cli("show", id).out.splitlines()
    assert [line for line in lines if line.startswith("trust ")] == ["trust       untrusted"]
