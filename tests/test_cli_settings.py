"""config and trust, and a cloned repository that comes with a home of its own."""

import json
import os
from pathlib import Path

import pytest
from cli_process import Cli

FOUND = {"OTOLITH_HOME": None}
HOSTILE = """
embedder = "python:evil:load"
embedder_url = "http://127.0.0.1:9/steal"
embedder_key = "sk-evil"
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def values(cli: Cli, **kwargs: object) -> dict[str, tuple[object, str]]:
    told = cli("config", "show", "--json", **kwargs).json  # type: ignore[arg-type]
    assert told["schema"] == "otolith.config/1"
    return {one["name"]: (one["value"], one["source"]) for one in told["settings"]}


def test_show_says_where_each_value_came_from(cli: Cli) -> None:
    cli("init")
    cli("config", "set", "lock_timeout", "5")
    cli("config", "set", "lock_timeout", "6", "--user")
    cli("config", "set", "log", "info", "--user")
    found = values(cli, env={"OTOLITH_EMBEDDER": "hash:8"})
    assert found["home"] == (str(cli.home), "given by OTOLITH_HOME")
    assert found["embedder"] == ("hash:8", "environment OTOLITH_EMBEDDER")
    assert found["lock_timeout"] == (5.0, f"{cli.home / 'config.toml'}:1")
    assert found["log"] == ("info", f"{cli.root / 'me/config/otolith/config.toml'}:2")
    assert found["embedder_url"] == (None, "default")
    text = cli("config", "show").out
    assert f"lock_timeout      5.0  ({cli.home / 'config.toml'}:1)\n" in text


def test_get_and_unset(cli: Cli) -> None:
    assert cli("config", "get", "lock_timeout").out == "30.0\n"
    assert cli("config", "get", "embedder_url", code=1).out == ""
    assert "did you mean embedder" in cli("config", "get", "embeder", code=1).err
    cli("config", "set", "embedder", "none", "--user")
    assert cli("config", "get", "embedder").out == "none\n"
    cli("config", "set", "embedder", "--unset", "--user")
    told = cli("config", "get", "embedder", "--json").json
    assert told["settings"] == [{"name": "embedder", "value": "auto", "source": "default"}]


def test_the_language_of_the_words_is_a_setting(cli: Cli) -> None:
    cli("init")
    cli("remember", "Die Häuser am Fluss")
    assert cli("recall", "Haus").out == ""
    cli("config", "set", "analyzer.language", "german")
    assert "Die Häuser am Fluss" in cli("recall", "Haus").out
    assert "default-german-" in cli("status").out
    assert "default-french-" in cli("status", env={"OTOLITH_ANALYZER_LANGUAGE": "french"}).out
    cli("config", "set", "analyzer.name", "plain")
    assert cli("recall", "Haus").out == ""
    assert "plain-" in cli("status").out
    refused = cli("config", "set", "analyzer.language", "klingon", code=1).err
    assert "expected one of english, arabic," in refused


def test_set_checks_first(cli: Cli) -> None:
    assert "there is no setting 'nope'" in cli("config", "set", "nope", "1", "--user", code=1).err
    assert "expected seconds" in cli("config", "set", "lock_timeout", "soon", "--user", code=1).err
    assert "otolith init" in cli("config", "set", "lock_timeout", "5", code=1).err
    assert not (cli.root / "me").exists()


def test_set_writes_no_table_that_a_home_cannot_be_opened_with(cli: Cli) -> None:
    cli("init")
    for bad in ("a b=c", "k8s=...", 'k8s=["kubernetes"]', "x==y", "k8s"):
        failed = cli("config", "set", "analyzer.synonyms", bad, code=1)
        assert "analyzer.synonyms" in failed.err, bad
    assert values(cli)["analyzer.synonyms"][1] == "default"
    assert (
        cli("config", "set", "analyzer.synonyms", "k8s=kubernetes").out
        == "analyzer.synonyms = k8s=kubernetes\n"
    )
    assert cli("config", "set", "analyzer.synonyms", "").out == "analyzer.synonyms = -\n"


def test_set_says_when_it_has_no_effect(cli: Cli) -> None:
    answer = cli("config", "set", "embedder", "none", "--user", env={"OTOLITH_EMBEDDER": "hash:8"})
    assert "has no effect now: environment OTOLITH_EMBEDDER gives another value" in answer.err


def test_a_key_is_kept_from_eyes(cli: Cli) -> None:
    cli("init")
    refused = cli("config", "set", "embedder_key", "sk-1", code=1)
    assert "--user" in refused.err
    answer = cli("config", "set", "embedder_key", "-", "--user", input="sk-1\n")
    file = cli.root / "me/config/otolith/config.toml"
    assert file.read_text() == 'embedder_key = "sk-1"\n'
    assert file.stat().st_mode & 0o777 == 0o600
    asked = [cli("config", "show"), cli("config", "show", "--json"), cli("config", "get", "embedder_key")]
    for one in [answer, refused, *asked]:
        assert "sk-1" not in one.out + one.err
    assert cli("config", "get", "embedder_key").out == "********\n"


def test_a_typo_in_a_file_stops_everything_that_uses_it(cli: Cli) -> None:
    cli("remember", "x")
    (cli.home / "config.toml").write_text('\nembeder = "none"\n')
    for command in (["list"], ["recall", "x"], ["remember", "y"], ["status"], ["config", "show"]):
        assert f"{cli.home / 'config.toml'}:2: there is no setting 'embeder'" in cli(*command, code=1).err
    assert cli("version").code == 0


def hostile(cli: Cli) -> Path:
    home = cli.cwd / ".otolith"
    home.mkdir()
    (home / "config.toml").write_text(HOSTILE)
    ran = cli.root / "ran"
    (cli.cwd / "evil.py").write_text(
        f"open({str(ran)!r}, 'w').close()\ndef load(texts): return [[1.0]] * len(texts)\n"
    )
    return ran


def test_a_cloned_repository_loads_no_code_and_names_no_server(cli: Cli) -> None:
    ran = hostile(cli)
    path = {**FOUND, "PYTHONPATH": os.pathsep.join([str(cli.cwd), cli.env.get("PYTHONPATH", "")])}
    below = cli.cwd / "src"
    below.mkdir()
    cli("remember", "a secret plan", env=path)
    for where in (cli.cwd, below):
        answer = cli("recall", "plan", env=path, cwd=where)
        assert "secret plan" in answer.out
        told = f"settings of this home ignored until `otolith trust {cli.cwd / '.otolith'}`: "
        assert answer.err.splitlines()[0] == told + "embedder, embedder_url, embedder_key"
        assert answer.err.count("ignored") == 1
        assert "sk-evil" not in answer.err
    shown = cli("config", "show", env=path)
    assert "ignored           embedder = python:evil:load\n" in shown.out
    assert f"trusted           no: {cli.cwd / '.otolith'} was found, and nobody said" in shown.out
    assert "sk-evil" not in shown.out
    assert shown.err == ""
    assert not ran.exists()
    assert cli("embed", code=1, env=path).out == ""
    told = cli("config", "show", "--json", env=path).json
    assert (told["trusted"], told["home_source"]) == (False, "found")
    assert [one["name"] for one in told["ignored"]] == ["embedder", "embedder_url", "embedder_key"]
    assert "sk-evil" not in json.dumps(told)
    status = cli("status", "--json", env=path).json
    assert (status["trusted"], len(status["ignored"])) == (False, 3)
    assert cli("status", env=path).err.count("ignored") == 1
    assert not ran.exists()


def test_trust_lets_it_in_until_the_file_changes(cli: Cli) -> None:
    ran = hostile(cli)
    path = {**FOUND, "PYTHONPATH": os.pathsep.join([str(cli.cwd), cli.env.get("PYTHONPATH", "")])}
    answer = cli("trust", ".", env=path)
    assert answer.out == f"{cli.cwd / '.otolith'}\n"
    assert "followed from now on: embedder = python:evil:load" in answer.err
    assert "sk-evil" not in answer.err
    cli("remember", "now it runs", env=path)
    assert ran.exists()
    ran.unlink()
    with (cli.cwd / ".otolith/config.toml").open("a") as file:
        file.write("# pulled\n")
    assert "ignored until `otolith trust" in cli("list", env=path).err
    assert "changed since it was trusted" in cli("config", "show", env=path).out
    assert not ran.exists()
    (kept,) = cli("trust", "--list", "--json", env=path).json["trusted"]
    assert (kept["path"], kept["current"]) == (str(cli.cwd / ".otolith"), False)
    assert "changed since" in cli("trust", "--list", env=path).out


def test_setting_a_value_keeps_trust_and_gives_none(cli: Cli) -> None:
    hostile(cli)
    cli("config", "set", "lock_timeout", "7", env=FOUND)
    assert values(cli, env=FOUND)["embedder"] == ("auto", "default")
    no_effect = cli("config", "set", "embedder", "openai:mine", env=FOUND)
    assert "has no effect now" in no_effect.err
    assert "otolith trust" in no_effect.err
    cli("trust", str(cli.cwd / ".otolith"), env=FOUND)
    cli("config", "set", "embedder", "hash:8", env=FOUND)
    cli("config", "set", "embedder_url", "http://127.0.0.1:9/v1", env=FOUND)
    assert values(cli, env=FOUND)["embedder_url"][0] == "http://127.0.0.1:9/v1"


def test_trust_is_removed(cli: Cli) -> None:
    hostile(cli)
    cli("trust", ".", env=FOUND)
    cli("trust", ".", "--remove", env=FOUND)
    assert cli("trust", "--list", env=FOUND).out == ""
    assert cli("trust", ".", "--remove", code=1, env=FOUND).out == ""
    assert values(cli, env=FOUND)["embedder"] == ("auto", "default")


def test_trust_wants_a_home_with_a_config_it_can_read(cli: Cli) -> None:
    assert "no memory in" in cli("trust", ".", code=1, env=FOUND).err
    assert "no memory in" in cli("trust", "nowhere", code=1, env=FOUND).err
    home = cli.cwd / ".otolith"
    home.mkdir()
    (home / "config.toml").write_text("embeder = 1\n")
    assert "embeder" in cli("trust", ".", code=1, env=FOUND).err
    assert cli("trust", "--list", "--json", env=FOUND).json == {"schema": "otolith.trust/1", "trusted": []}


def test_a_home_that_is_named_is_the_users_own_choice(cli: Cli) -> None:
    home = cli.cwd / ".otolith"
    home.mkdir()
    (home / "config.toml").write_text('embedder_url = "http://127.0.0.1:9/v1"\n')
    for kwargs in ({"env": {"OTOLITH_HOME": str(home)}},):
        assert values(cli, **kwargs)["embedder_url"][0] == "http://127.0.0.1:9/v1"
    told = cli("config", "show", "--json", "--home", str(home), env=FOUND).json
    assert (told["trusted"], told["home_source"], told["ignored"]) == (True, "flag", [])


def test_a_linked_config_of_a_home_is_not_written_through(cli: Cli) -> None:
    """A cloned home held a link in place of its config, and a setting went to the file it led to."""
    cli("init")
    outside = cli.home.parent / "outside.toml"
    (cli.home / "config.toml").symlink_to(outside)
    done = cli("config", "set", "lock_timeout", "5", code=1)
    assert "symbolic link" in done.err
    assert not outside.exists()
