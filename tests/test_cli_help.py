"""Help, completion and start-up: what people see before there is a memory."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from cli_process import Cli, cpu_seconds
from click.testing import CliRunner
from otolith.cli._command import Shared
from otolith.cli._invocation import Invocation
from otolith.cli._root import COMMANDS, root

VERSION_CLICKS = 1.75
"""As many times what importing click alone takes: measured 1.3, and 2.2 with the parts of rich in it."""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def all_commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = [("", root)]
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found.extend((f"{name} {inner}", command.commands[inner]) for inner in command.commands)
    return found


@pytest.mark.parametrize(
    ("name", "command"), all_commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_help_with_an_example(name: str, command: click.Command) -> None:
    answer = CliRunner().invoke(root, [*name.split(), "--help"], prog_name="otolith", obj=Invocation())
    assert answer.exit_code == 0
    assert isinstance(command, Shared)
    assert command.help
    assert command.examples
    for example in command.examples:
        assert f"  {example}\n" in answer.output
        assert re.search(rf"\botolith {name}".rstrip(), example)
    for option in ("--home", "--json", "--quiet", "--help"):
        assert option in answer.output


def test_every_option_says_what_it_does() -> None:
    silent = [
        (name, param.name)
        for name, command in all_commands()
        for param in command.params
        if isinstance(param, click.Option) and not param.help
    ]
    assert silent == []


def test_the_list_of_commands_is_the_files_there_are() -> None:
    import otolith.cli

    (folder,) = otolith.cli.__path__
    files = {file.name.removesuffix("_command.py") for file in Path(folder).glob("[!_]*_command.py")}
    assert files == set(COMMANDS)


def test_examples_of_the_help_run(cli: Cli, tmp_path: Path) -> None:
    """Every example, word by word, in a shell, in a home that has something in it."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    programs = tmp_path / "programs"
    programs.mkdir()
    shim = programs / "otolith"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m otolith "$@"\n')
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    git = programs / "git"
    git.write_text("#!/bin/sh\necho Fix the retry loop\n")
    git.chmod(0o755)
    cli.env.update(PATH=f"{programs}{os.pathsep}{cli.env['PATH']}", OTOLITH_EMBEDDER="hash:32")
    (cli.cwd / ".otolith").mkdir()
    cli("remember", "retries without back-off doubled the load", "--tag", "http")
    cli("export", "memory.jsonl")
    (cli.cwd / "notes.jsonl").write_text('{"uid": "1", "text": "a note", "time": "2026-01-02T03:04:05Z"}\n')
    turn = {"speaker": "Ada", "dia_id": "D1:1", "text": "hello"}
    talk = {"session_1_date_time": "1:56 pm on 8 May, 2024", "session_1": [turn]}
    (cli.cwd / "conversations.json").write_text(json.dumps([{"sample_id": "1", "conversation": talk}]))
    cli("eval", "run", "coding-agent-life", "--row", "lexical", "-o", "run.json")
    for _, command in all_commands():
        assert isinstance(command, Shared)
        for example in command.examples:
            line = f"set -o pipefail; {example}"
            if re.search(r"\bID\b", example):
                identifier = cli("remember", "a memory to work on").out.strip()
                line = re.sub(r"\bID\b", identifier, line)
            done = subprocess.run(
                [bash, "-c", line],
                capture_output=True,
                text=True,
                env=cli.env,
                cwd=cli.cwd,
                check=False,
                timeout=60,
            )
            assert done.returncode == 0, (example, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recal", "x"], "no such command 'recal'"),
        (["recall"], "Missing argument 'QUERY'"),
        (["recall", "x", "--nope"], "No such option"),
        (["recall", ""], "the question is blank"),
        (["recall", " "], "the question is blank"),
        (["recall", "x", "--legs", "meaning"], "'meaning' is not one of lexical, vector"),
        (["recall", "x", "--legs", "lexical,"], "'' is not one of"),
        (["list", "--home"], "see otolith list --help"),
        (["config", "set", "--home"], "see otolith config set --help"),
        (["help", "nope"], "no command 'nope' in otolith"),
        (["help", "recall", "x"], "no command 'x' in otolith recall"),
        (["recall", "x", "y"], "unexpected extra argument"),
        (["recall", "x", "-k", "-1"], "'-k'"),
        (["recall", "x", "-k", "many"], "'-k'"),
        (["recall", "x", "--min-relevance", "2"], "--min-relevance"),
        (["recall", "x", "--below"], "--below needs --dir"),
        (["recall", "x", "--meta", "novalue"], "--meta: expected NAME=VALUE"),
        (["recall", "x", "--since", "yesterday"], "is no time"),
        (["list", "--home"], "requires an argument"),
        (["list", "--session", "--below"], "--session needs a value and found the option --below"),
        (["list", "--dir", 'C:\\notes" --tag x'], "swallowed what follows"),
        (["--home", 'C:\\notes" list'.replace(" list", " -q"), "list"], "swallowed what follows"),
        (["show"], "Missing argument"),
        (["update", "0"], "nothing to change"),
        (["update", "0", "--title", "a", "--clear", "title"], "set and cleared at once"),
        (["forget"], "give ids, or --where"),
        (["forget", "0", "--where", "tags=a"], "not both"),
        (["forget", "--where", "session=a"], "did you mean session_id?"),
        (["forget", "--where", "zzzzzz=a"], "there are ids, not_ids,"),
        (["forget", "--where", "metadata=a"], "did you mean metadata.NAME?"),
        (["forget", "--where", "tags"], "expected FIELD=VALUE"),
        (["forget", "--where", "scope=a", "--where", "scope=b"], "given twice"),
        (["forget", "--where", "below=maybe"], "below is true or false"),
        (["forget", "--where", "since=maybe"], "is no time"),
        (["import", "x", "--map", "a=b"], "--map and --key are for"),
        (["import", "x", "--format", "jsonl", "--map", "a"], "expected NAME=VALUE"),
        (["config", "set", "embedder"], "give VALUE or --unset"),
        (["trust"], "give DIR, or --list"),
        (["completion", "tcsh"], "tcsh"),
        (["init", "a", "--home", "b"], "not both"),
    ],
)
def test_wrong_usage_is_told_and_exits_2(cli: Cli, arguments: list[str], message: str) -> None:
    answer = cli(*arguments, code=2)
    assert answer.out == ""
    assert message in answer.err
    assert "error: " in answer.err
    told = cli("--json", *arguments, code=2)
    assert told.error["schema"] == "otolith.error/1"
    assert told.error["error"] == "UsageError"
    assert message in f"{told.error['message']}; {told.error['hint']}"
    assert told.error["hint"] not in told.error["message"]
    assert not cli.home.exists()


def test_no_arguments_is_help_and_wrong_usage(cli: Cli) -> None:
    assert "Commands:" in cli(code=2).err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(cli: Cli, shell: str) -> None:
    script = cli("completion", shell).out
    assert f"_OTOLITH_COMPLETE={shell}_complete" in script
    assert cli("completion", shell, "--json").json == {
        "schema": "otolith.completion/1",
        "shell": shell,
        "script": script,
    } | {"script": cli("completion", shell, "--json").json["script"]}
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True, timeout=30)


def test_completion_of_commands_and_options(cli: Cli) -> None:
    def complete(words: str, at: int) -> list[str]:
        env = {"_OTOLITH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        return [line.partition(",")[2] for line in cli(env=env).out.splitlines()]

    assert complete("otolith re", 1) == ["remember", "recall", "reindex"]
    assert complete("otolith config s", 2) == ["set", "show"]
    assert "--expect" in complete("otolith update --", 2)
    assert complete("otolith recall --fusion ", 3) == ["weighted", "rrf"]
    assert complete("otolith recall --legs v", 3) == ["vector"]
    names = ["embedder", "embedder_url", "embedder_key", "embedder_prompt", "embedder_dim"]
    assert complete("otolith config set embedder", 3) == names
    assert complete("otolith config get ho", 3) == ["home"]
    assert "home" not in complete("otolith config set ho", 3)
    assert complete("otolith help re", 2) == ["remember", "recall", "reindex"]
    assert complete("otolith help config s", 3) == ["set", "show"]


@pytest.mark.parametrize("name", ["", "recall", "config", "config set"])
def test_help_is_what_the_option_help_prints(cli: Cli, name: str) -> None:
    words = name.split()
    shown = cli("help", *words).out
    assert shown == cli(*words, "--help").out
    told = cli("help", *words, "--json").json
    assert (told["schema"], told["command"]) == ("otolith.help/1", " ".join(["otolith", *words]))
    assert told["text"] + "\n" == shown


def test_version(cli: Cli) -> None:
    import otolith

    assert cli("--version").out == f"otolith {otolith.__version__}\n"
    assert cli("--version", "--json").json == cli("version", "--json").json
    assert cli("version").out == f"otolith {otolith.__version__}\n"
    told = cli("version", "--json").json
    assert (told["schema"], told["version"]) == ("otolith.version/1", otolith.__version__)


def test_version_imports_nothing_heavy(cli: Cli) -> None:
    code = (
        "import sys; from otolith.cli import main; main(['version']); "
        "print(sorted({'rich', 'httpx', 'numpy', 'tomlkit', 'asyncio', 'platformdirs', 'logging'} "
        "& set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=cli.env
    )
    assert done.stdout.splitlines()[1] == "[]"


def test_recall_imports_neither_numpy_nor_httpx_nor_rich(cli: Cli) -> None:
    cli("remember", "one thing")
    code = (
        "import sys; from otolith.cli import main; main(['recall', 'thing']); "
        "print(sorted({'rich', 'httpx', 'numpy', 'tomlkit', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=cli.env
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_takes_little_more_processor_time_than_bare_python(cli: Cli) -> None:
    environment = {name: value for name, value in cli.env.items() if name != "PYTHONDONTWRITEBYTECODE"}
    cpu_seconds(["-m", "otolith", "version"], environment, runs=1)
    measured = []
    for _ in range(3):  # a machine that others use changes its speed within seconds
        bare = cpu_seconds(["-c", "pass"], environment)
        click_alone = cpu_seconds(["-c", "import click"], environment) - bare
        spent = cpu_seconds(["-m", "otolith", "version"], environment) - bare
        measured.append((spent, click_alone))
        if spent <= VERSION_CLICKS * click_alone:
            return
    pytest.fail(f"seconds, and of click alone: {measured}")


def test_json_schema_of_errors_is_stable(cli: Cli) -> None:
    told = cli("show", "0", "--json", code=1).error
    assert set(told) == {"schema", "error", "message", "hint", "details"}
    json.dumps(told)
