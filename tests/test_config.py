"""Settings: who wins, where a value came from, and what a home that was found may not do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from otolith import config, trusted
from otolith.exceptions import InvalidInput

VARIABLES = [name for name in os.environ if name.startswith(("OTOLITH", "XDG_"))]
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs to give files away")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any settings, who works in `tmp_path/work`."""
    for name in (*VARIABLES, "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("config", "state", "data"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / "user" / name))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def home_with(where: Path, text: str) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    (where / "config.toml").write_text(text, encoding="utf-8")
    return where


def user_config(text: str) -> Path:
    file = config.user_config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_first_of_flag_environment_home_user_default_wins(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_with(user / "mine", "\nlock_timeout = 3\n")
    file = user_config("lock_timeout = 4\n")
    monkeypatch.setenv("OTOLITH_LOCK_TIMEOUT", "2")

    def now(flag: float | None = None) -> tuple[float, str]:
        found = config.resolve(home=home, flags={"lock_timeout": flag})
        return found.get("lock_timeout"), found.source("lock_timeout")

    assert now(1) == (1.0, "flag")
    assert now() == (2.0, "environment OTOLITH_LOCK_TIMEOUT")
    monkeypatch.delenv("OTOLITH_LOCK_TIMEOUT")
    assert now() == (3.0, f"{home / 'config.toml'}:2")
    (home / "config.toml").unlink()
    assert now() == (4.0, f"{file}:1")
    file.unlink()
    assert now() == (30.0, "default")


def test_home_is_argument_then_environment_then_found_then_data_directory(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.resolve().home == config.user_home()
    assert config.resolve().home_source == "default"
    deep = user / "a" / "b"
    deep.mkdir(parents=True)
    (user / ".otolith").mkdir()
    monkeypatch.chdir(deep)
    assert (config.resolve().home, config.resolve().home_source) == (user / ".otolith", "found")
    (user / "a" / ".otolith").mkdir()
    assert config.resolve().home == user / "a" / ".otolith"
    (deep / ".otolith").write_text("a file is no home")
    assert config.resolve().home == user / "a" / ".otolith"
    monkeypatch.setenv("OTOLITH_HOME", "~/there")
    assert (config.resolve().home, config.resolve().home_source) == (
        user.parent / "user" / "there",
        "environment",
    )
    assert config.resolve(home="x").home == deep / "x"
    assert config.resolve(home="x").home_source == "flag"
    assert config.resolve(home=Path("x")).get("home") == deep / "x"


@pytest.mark.parametrize("bad", ["", "  ", "a\0b", b"bytes"])
def test_no_path_is_no_home(user: Path, bad: object) -> None:
    with pytest.raises(InvalidInput, match="no path"):
        config.resolve(home=bad)  # type: ignore[arg-type]


def test_empty_variable_counts_as_unset(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER", "")
    monkeypatch.setenv("OTOLITH_HOME", "")
    assert config.resolve().source("embedder") == "default"
    assert config.resolve().home_source == "default"


def test_no_color_is_a_setting_like_others(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    found = config.resolve()
    assert (found.get("color"), found.source("color")) == ("never", "environment NO_COLOR")


@pytest.mark.parametrize(
    "spec",
    [
        "none", "auto", "hash:8", "hash:4096", "openai:nomic-embed-text:latest", "openai:e5?prompt=none",
        "python:my.module:name.part", "ollama:bge-m3?keep_alive=30m", "openai:a?b",
        "openai:m?prompt=e5&dim=64",
        "fastembed:BAAI/bge-small-en-v1.5", "sentence-transformers:/models/mine?dim=256", "st:a/b",
        "model2vec:~/potion", "openai:m?prompt=passage%3A%20,query%3A%20",
    ],
)  # fmt: skip
def test_specs_of_embedders(user: Path, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER", spec)
    assert config.resolve().get("embedder") == spec
    config.write(user / "config.toml", "embedder", spec)


@pytest.mark.parametrize(
    "spec",
    [
        "NONE", "magic", "hash", "hash:", "hash:x", "hash:7", "hash:4097", "hash:256:python:evil", "hash:-8",
        "openai", "openai:", "openai: ", "openai:?prompt=none", "openai:m?prompt=nope",
        "python:", "python:module",
        "python::name", "python:module:", "python:a:b:c", "fastembed:", "llama:x",
        "openai:m?dim=0", "openai:m?dim=x", "openai:m?dim=8&dim=9", "openai:m?dim=8&x=1", "openai:m?prompt=",
        "openai:m?dim=65537", "ollama:?dim=8", "openai:m?prompt=a,b,c", "none\u2028openai:x",
    ],
)  # fmt: skip
def test_what_is_no_spec_is_refused_where_it_stands(
    user: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    file = user / "config.toml"
    with pytest.raises(InvalidInput, match="value for embedder: expected"):
        config.write(file, "embedder", spec)
    assert not file.exists()
    home = home_with(user / "mine", f'# first\nembedder = "{spec}"\n')
    with pytest.raises(InvalidInput, match=r"mine/config\.toml:2: embedder: expected .*, found"):
        config.resolve(home=home)
    monkeypatch.setenv("OTOLITH_EMBEDDER", spec)
    with pytest.raises(InvalidInput, match="OTOLITH_EMBEDDER: expected"):
        config.resolve()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"e5"', "e5"),
        ('"passage%3A%20,query%3A%20"', "e5"),
        ('{ document = "passage: ", query = "query: " }', "e5"),
        ('{ query = "找：" }', ",%E6%89%BE%EF%BC%9A"),
        ('{ document = "", query = "" }', "none"),
        ('"poem"', None),
        ("{}", None),
        ('{ question = "x" }', None),
        ("{ query = 5 }", None),
        ("5", None),
    ],
)
def test_prompt_forms(user: Path, written: str, meant: str | None) -> None:
    home = home_with(user / "mine", f"embedder_prompt = {written}\n")
    if meant is None:
        with pytest.raises(InvalidInput, match=r"mine/config\.toml:1: embedder_prompt: expected"):
            config.resolve(home=home)
    else:
        assert config.resolve(home=home).get("embedder_prompt") == meant


@pytest.mark.parametrize(("raw", "meant"), [("256", 256), (64, 64), ("0", None), (True, None), (2.5, None)])
def test_widths_that_vectors_are_cut_to(user: Path, raw: object, meant: int | None) -> None:
    if meant is None:
        with pytest.raises(InvalidInput, match="expected a dim from 1 to 65536"):
            config.resolve(flags={"embedder_dim": raw})
    else:
        assert config.resolve(flags={"embedder_dim": raw}).get("embedder_dim") == meant


def test_widths_are_those_of_the_hash_embedder() -> None:
    from otolith.embedders import resolve

    for width in (config._HASH_WIDTHS[0], config._HASH_WIDTHS[-1]):
        assert resolve(f"hash:{width}") is not None
    for width in (config._HASH_WIDTHS[0] - 1, config._HASH_WIDTHS[-1] + 1):
        with pytest.raises(InvalidInput):
            resolve(f"hash:{width}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'embedder = "none"\nembeder_url = "http://x/"\n',
            r"config\.toml:2: .*'embeder_url'; did you mean embedder_url\?",
        ),
        ("[zzz]\nqqq = 1\n", r"config\.toml:1: there is no setting 'zzz'; the settings are embedder,"),
        ('home = "/tmp"\n', r"config\.toml:1: there is no setting 'home'"),
        ("lock_timeout = 3\nlock_timeout = = 4\n", r"config\.toml:2: is not TOML"),
        ('a = "\n', r"config\.toml:1: is not TOML"),
        (
            "\n\nlock_timeout = true\n",
            r"config\.toml:3: lock_timeout: expected seconds from 0 to 86400, found True",
        ),
        ("lock_timeout = -1\n", "expected seconds"),
        ("lock_timeout = nan\n", "expected seconds"),
        ("embedder = 5\n", r"embedder: expected a text.* found 5"),
        ('embedder = " "\n', "not blank"),
        ('embedder = "a\\nb"\n', "control characters"),
        ('embedder_url = "ftp://x"\n', r"expected a URL such as"),
        ('embedder_url = "http://"\n', r"expected a URL such as"),
        ('embedder_url = "http://x:99999999/"\n', r"expected a URL such as"),
        ('embedder_url = "https://me:secret@x/"\n', r"without user and password"),
        ('log = "loud"\n', r"one of error, warning, info, debug, found 'loud'"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(user: Path, text: str, message: str) -> None:
    home = home_with(user / "mine", text)
    with pytest.raises(InvalidInput, match=message):
        config.resolve(home=home)


def test_file_that_is_not_utf8_is_named_with_its_line(user: Path) -> None:
    home = home_with(user / "mine", "")
    (home / "config.toml").write_bytes(b"# a\n# b \xff\n")
    with pytest.raises(InvalidInput, match=r"config\.toml:2: is not UTF-8"):
        config.resolve(home=home)


def test_wrong_variable_is_named(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTOLITH_LOCK_TIMEOUT", "soon")
    with pytest.raises(InvalidInput, match="OTOLITH_LOCK_TIMEOUT: expected seconds"):
        config.resolve()


def test_unknown_flag_and_name_are_refused(user: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean embedder"):
        config.resolve(flags={"embeder": "none"})
    with pytest.raises(InvalidInput, match="no setting 'nope'"):
        config.resolve().get("nope")


def test_key_is_never_shown(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER_KEY", "sk-secret")
    found = config.resolve()
    assert found.get("embedder_key") == "sk-secret"
    assert found.shown("embedder_key") == config.MASK
    assert "sk-secret" not in repr(found)
    monkeypatch.setenv("OTOLITH_EMBEDDER_KEY", "sk-sec\x07ret")
    with pytest.raises(InvalidInput) as caught:
        config.resolve()
    assert "sk-sec" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("embedder", "python:evil:load"),
        ("embedder", "openai:text-embedding-3-small"),
        ("embedder_url", "http://evil.example/v1"),
        ("embedder_key", "sk-evil"),
        ("embedder", "ollama:evil"),
        ("embedder", "fastembed:BAAI/bge-small-en-v1.5"),
        ("embedder", "sentence-transformers:./evil"),
        ("embedder", "model2vec:./evil"),
        ("embedder_prompt", "e5"),
        ("embedder_dim", "8"),
        ("log", "debug"),
    ],
)
def test_a_home_that_was_found_may_not_set(user: Path, name: str, value: str) -> None:
    """A cloned repository must neither load code nor send the memory to its author."""
    home = home_with(user / ".otolith", f'{name} = "{value}"\n')
    found = config.resolve()
    assert not found.trusted
    assert found.source(name) == "default"
    assert [one.name for one in found.ignored] == [name]
    assert "otolith trust" in found.ignored[0].reason
    assert "sk-evil" not in repr(found)
    for own in ({"home": home}, {"home": str(home)}):
        assert config.resolve(**own).trusted  # type: ignore[arg-type]
        assert config.resolve(**own).ignored == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", ["none", "auto", "hash:64"])
def test_a_home_that_was_found_may_set_harmless_things(user: Path, spec: str) -> None:
    home_with(user / ".otolith", f'embedder = "{spec}"\nlock_timeout = 7\ncolor = "never"\n')
    found = config.resolve()
    assert (found.get("embedder"), found.get("lock_timeout"), found.get("color")) == (spec, 7.0, "never")
    assert not found.trusted
    assert found.ignored == ()


def test_what_is_ignored_falls_through_to_the_user(user: Path) -> None:
    home_with(user / ".otolith", 'embedder = "python:evil:x"\n')
    user_config('embedder = "openai:mine"\n')
    assert config.resolve().get("embedder") == "openai:mine"


def test_embedders_named_by_the_store_of_a_found_home(user: Path) -> None:
    home = home_with(user / ".otolith", "")
    found = config.resolve()
    assert found.may_follow_embedder("hash:8")
    assert not found.may_follow_embedder("python:evil:x")
    assert not found.may_follow_embedder("openai:x")
    assert config.resolve(home=home).may_follow_embedder("openai:x")


def trust(home: Path) -> None:
    trusted.add(home, config.read_bytes(home / "config.toml"))


def test_trust_follows_the_file_that_was_looked_at(user: Path) -> None:
    home = home_with(user / ".otolith", 'embedder = "openai:mine"\n')
    trust(home)
    assert config.resolve().trusted
    assert config.resolve().get("embedder") == "openai:mine"
    home_with(home, 'embedder = "python:evil:x"\n')
    found = config.resolve()
    assert not found.trusted
    assert found.get("embedder") == "auto"
    assert "changed since" in found.ignored[0].reason
    trust(home)
    assert trusted.remove(home)
    assert not trusted.remove(home)
    assert not config.resolve().trusted


def test_a_file_that_comes_later_is_not_trusted(user: Path) -> None:
    home = user / ".otolith"
    home.mkdir()
    trust(home)
    assert config.resolve().trusted
    home_with(home, 'embedder = "python:evil:x"\n')
    assert not config.resolve().trusted


def test_trust_is_in_the_real_directory(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link leads to what it points at: it neither borrows nor lends trust."""
    good = home_with(user / "good" / ".otolith", 'embedder = "openai:mine"\n')
    evil = home_with(user / "evil" / ".otolith", 'embedder = "openai:mine"\n')
    trust(good)
    (user / "linked").mkdir()
    (user / "linked" / ".otolith").symlink_to(good)
    monkeypatch.chdir(user / "linked")
    assert config.resolve().trusted
    monkeypatch.chdir(user / "evil")
    assert not config.resolve().trusted
    good.rename(user / "good" / "moved")
    good.symlink_to(evil)
    monkeypatch.chdir(user / "good")
    assert not config.resolve().trusted


@as_root
def test_a_home_of_another_user_is_not_trusted(user: Path) -> None:
    home = home_with(user / ".otolith", 'embedder = "openai:mine"\n')
    os.chown(home, 65534, 65534)
    assert config.resolve().foreign_owner == 65534
    assert not config.resolve().trusted
    os.chown(home, 0, 0)
    trust(home)
    assert config.resolve().trusted
    os.chown(home, 65534, 65534)
    found = config.resolve()
    assert not found.trusted
    assert "owner changed" in found.ignored[0].reason


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"format": 2}', b'{"format": 1, "path": 5}'])
def test_a_damaged_record_gives_no_trust(user: Path, damage: bytes) -> None:
    home = home_with(user / ".otolith", "")
    trust(home)
    (record,) = trusted.state_dir().iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    assert record.parent.stat().st_mode & 0o777 == 0o700
    record.write_bytes(damage)
    assert not config.resolve().trusted
    assert list(trusted.records()) == []


def test_record_of_another_home_gives_no_trust(user: Path) -> None:
    """The name of a record is a hash; what counts is the path in it."""
    home = home_with(user / ".otolith", "")
    other = home_with(user / "other", "")
    trust(other)
    (record,) = trusted.state_dir().iterdir()
    trust(home)
    (mine,) = set(trusted.state_dir().iterdir()) - {record}
    record.replace(mine)
    assert not config.resolve().trusted


def test_the_own_data_directory_is_trusted_however_it_is_reached(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home_with(config.user_home(), 'embedder = "openai:mine"\n')
    assert config.resolve().trusted
    (user / ".otolith").symlink_to(own)
    assert config.resolve().home_source == "found"
    assert config.resolve().get("embedder") == "openai:mine"


def test_a_pipe_or_directory_or_endless_file_as_config_neither_hangs_nor_counts(user: Path) -> None:
    home = user / ".otolith"
    home.mkdir()
    file = home / "config.toml"
    os.mkfifo(file)
    with pytest.raises(InvalidInput, match="no ordinary file"):
        config.resolve()
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(InvalidInput, match="no ordinary file"):
        config.resolve()
    file.unlink()
    file.mkdir()
    with pytest.raises(InvalidInput, match="no ordinary file"):
        config.resolve()
    file.rmdir()
    file.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(InvalidInput, match="larger than 1 MiB"):
        config.resolve()


def test_deeply_nested_config_is_an_error(user: Path) -> None:
    home = home_with(user / "mine", "embedder = " + "[" * 50_000)
    with pytest.raises(InvalidInput, match="is not TOML"):
        config.resolve(home=home)


def test_write_keeps_comments_order_and_mode(user: Path) -> None:
    text = '# mine\n\nembedder = "none" # for now\n\n# wait\nlock_timeout = 3\n'
    home = home_with(user / "mine", text)
    file = home / "config.toml"
    file.chmod(0o640)
    config.write(file, "lock_timeout", "9")
    assert file.read_text() == text.replace("= 3", "= 9.0")
    assert file.stat().st_mode & 0o777 == 0o640
    config.write(file, "lock_timeout", None)
    assert file.read_text().startswith('# mine\n\nembedder = "none" # for now\n')
    assert config.resolve(home=home).source("lock_timeout") == "default"
    config.write(file, "embedder_key", "sk-1")
    assert file.stat().st_mode & 0o077 == 0
    assert os.listdir(home) == ["config.toml"]


def test_write_keeps_line_ends_and_byte_order_mark(user: Path) -> None:
    home = home_with(user / "mine", "")
    file = home / "config.toml"
    file.write_bytes(b"\xef\xbb\xbf# a\r\nlock_timeout = 3\r\n")
    config.write(file, "lock_timeout", "4")
    assert file.read_bytes() == b"\xef\xbb\xbf# a\r\nlock_timeout = 4.0\r\n"


def test_a_broken_file_is_not_written_over(user: Path) -> None:
    home = home_with(user / "mine", "[oops]\n")
    before = (home / "config.toml").read_bytes()
    with pytest.raises(InvalidInput, match="no setting 'oops'"):
        config.write(home / "config.toml", "embedder", "none")
    assert (home / "config.toml").read_bytes() == before


def test_write_follows_a_link_only_when_told(user: Path) -> None:
    home = home_with(user / "mine", "")
    real = user / "dotfiles.toml"
    real.write_text("")
    (home / "config.toml").unlink()
    (home / "config.toml").symlink_to(real)
    with pytest.raises(InvalidInput, match="symbolic link"):
        config.write(home / "config.toml", "embedder", "none")
    assert real.read_text() == ""
    config.write(home / "config.toml", "embedder", "none", follow=True)
    assert (home / "config.toml").is_symlink()
    assert real.read_text() == 'embedder = "none"\n'


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(min_size=1, max_size=40))
def test_what_is_written_is_read_back(user: Path, value: str) -> None:
    home = home_with(user / "mine", "# top\n")
    try:
        written = config.write(home / "config.toml", "embedder", value)
    except InvalidInput:
        return
    assert written == value.strip()
    assert config.resolve(home=home).get("embedder") == written


def test_resolving_imports_nothing_heavy() -> None:
    code = (
        "import sys; from otolith import config; config.resolve(home='/nowhere'); "
        "print(sorted({'click', 'rich', 'httpx', 'numpy', 'tomlkit', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_synonyms_are_a_table_or_a_line(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_with(user / "mine", '[analyzer]\nexpand = "off"\n\n[analyzer.synonyms]\nk8s = "kubernetes"\n')
    settings = config.resolve(home=home)
    assert settings.get("analyzer.synonyms") == {"k8s": ["kubernetes"]}
    assert settings.source("analyzer.synonyms") == f"{home / 'config.toml'}:4"
    assert settings.get("analyzer.expand") == "off"
    monkeypatch.setenv("OTOLITH_ANALYZER_SYNONYMS", "db = database, datastore; k8s=kubernetes")
    found = config.resolve(home=home).get("analyzer.synonyms")
    assert found == {"db": ["database", "datastore"], "k8s": ["kubernetes"]}
    assert config.as_text(found) == "db=database,datastore; k8s=kubernetes"
    monkeypatch.delenv("OTOLITH_ANALYZER_SYNONYMS")
    config.write(home / "config.toml", "analyzer.synonyms", "电脑=计算机")
    assert config.resolve(home=home).get("analyzer.synonyms") == {"电脑": ["计算机"]}


@pytest.mark.parametrize("bad", ["k8s", "=x", "k8s=", 5, ["k8s"], {"k8s": 5}, {"k8s": [5]}])
def test_synonyms_of_another_form_are_refused(user: Path, bad: object) -> None:
    with pytest.raises(InvalidInput, match="synonyms"):
        config.resolve(home=user / "mine", flags={"analyzer.synonyms": bad})


def test_a_setting_that_is_to_go_names_the_way() -> None:
    with pytest.raises(InvalidInput, match="otolith config set embedder_dim --unset"):
        config.resolve(flags={"embedder_dim": "none"})
