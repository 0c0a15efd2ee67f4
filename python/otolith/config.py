"""Settings, resolved once for the library, the command line and everything else.

For each setting the first of these that gives a value wins:

1. a flag, or an argument of the caller;
2. the environment;
3. `config.toml` in the home;
4. `config.toml` in the user's configuration directory;
5. the default.

A home is `--home` or the caller's argument, else `OTOLITH_HOME`, else the nearest `.otolith` directory upward
from the working directory, else the user's data directory. One that was found by walking up may have come
with a cloned repository. Unless the user said `otolith trust DIR`, its config.toml may set harmless things
only; what it asked for and did not get is listed in `Settings.ignored`.

Nothing here imports numpy, httpx, click or rich.
"""

import difflib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from otolith import env, trusted
from otolith._files import absolute, replace_file
from otolith.exceptions import InvalidInput

FILE_NAME: Final = "config.toml"
MASK: Final = "********"
_MAX_BYTES: Final = 1 << 20
_MAX_LOCK_TIMEOUT: Final = 86_400.0

HomeSource = Literal["flag", "environment", "found", "default"]

HOME_SOURCES: Final[Mapping[HomeSource, str]] = MappingProxyType(
    {
        "flag": "given by --home or the caller",
        "environment": f"given by {env.HOME}",
        "found": "found as .otolith at or above the working directory",
        "default": "the user's data directory",
    }
)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a text that is not blank")
    if any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise ValueError("expected a text without control characters")
    return value.strip()


def _url(value: object) -> str:
    url = _text(value)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("expected a URL such as http://127.0.0.1:8080/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            f"expected a URL without user and password; give the key as embedder_key or {env.EMBEDDER_KEY}"
        )
    return url


def _key(value: object) -> str:
    key = _text(value)
    if not key.isascii() or not key.isprintable():
        raise ValueError("expected a key of ASCII characters; copy it again")
    return key


EMBEDDER_SPECS: Final = (
    "none, auto, hash:N, openai:MODEL, ollama:MODEL, fastembed:MODEL, sentence-transformers:MODEL, "
    "model2vec:MODEL or python:module:object"
)
_HASH_WIDTHS: Final = range(8, 4097)


def _embedder(value: object) -> str:
    """The form only: whether there is such a model, server or module is found out when it is used."""
    spec = _text(value)
    kind, _, rest = spec.partition(":")
    usable = spec in ("none", "auto")
    if kind == "hash":
        usable = re.fullmatch("[0-9]{1,5}", rest) is not None and int(rest) in _HASH_WIDTHS
    elif kind == "python":
        usable = re.fullmatch(r"[^\s:]+:[^\s:]+", rest) is not None
    elif rest.strip():
        from otolith.embedders import naming

        usable = naming.kind_of(spec) in naming.MODEL_KINDS
        if usable:
            naming.named(rest)
    if not usable:
        raise ValueError(f"expected {EMBEDDER_SPECS}, with N from 8 to 4096")
    return spec


def _prompt(value: object) -> str:
    """A prompt form, or a table with what is written before a `document` and before a `query`."""
    from otolith.embedders.prompts import check_form

    if isinstance(value, Mapping):
        if not value or not set(value) <= {"document", "query"}:
            raise ValueError("expected the texts document and query")
        value = (value.get("document", ""), value.get("query", ""))
    return check_form(value.strip() if isinstance(value, str) else value)


def _dim(value: object) -> int:
    from otolith.embedders.naming import checked_dim

    return checked_dim(value.strip() if isinstance(value, str) else value)


def _seconds(value: object) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_LOCK_TIMEOUT:
        raise ValueError(f"expected seconds from 0 to {_MAX_LOCK_TIMEOUT:.0f}")
    return float(value)


def _one_of(*choices: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return str(value)

    return parse


def _synonyms(value: object) -> dict[str, list[str]]:
    """A table of words, each with one or several others; or the same as `word=other,other; word=other`."""
    expected = "expected words and what they are also called, such as db=database,datastore"
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(";") if pair.strip()]
        # Signs of another notation would become words.
        if any(not sign or set(word + names) & set('=[]{}"') for word, sign, names in pairs):
            raise ValueError(expected)
        value = {word: names.split(",") for word, _, names in pairs}
    if not isinstance(value, Mapping):
        raise ValueError(expected)
    table: dict[str, list[str]] = {}
    for word, names in value.items():
        if not isinstance(names, str | list | tuple):
            raise ValueError(expected)
        table[_text(word)] = [_text(name) for name in ([names] if isinstance(names, str) else names)]
    return table


def as_text(value: Any) -> Any:
    """Returns a value for showing: a table as an environment variable has it, anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    return "; ".join(f"{word}={','.join(names)}" for word, names in value.items()) or None


# Snowball's languages as the engine has them (a test compares): `config show` need not load the engine.
LANGUAGES: Final = (
    "english", "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "earlymodernenglish",
    "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian",
    "irish", "italian", "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese", "romanian",
    "russian", "serbian", "sesotho", "spanish", "swedish", "tamil", "turkish", "ukrainian", "yiddish",
    "off",
)  # fmt: skip


def _never(_: object) -> bool:
    """Whatever the settings say: an untrusted home may not set it."""
    return False


def _always(_: object) -> bool:
    return True


def is_harmless_embedder(spec: object) -> bool:
    """Returns whether an embedder spec neither loads code nor files nor talks to a server."""
    return isinstance(spec, str) and re.fullmatch(r"none|auto|hash:[0-9]{1,5}", spec) is not None


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings.

    Attributes:
        name: Key in config.toml and name for `Settings.get`; a dot leads into a table, as in TOML.
        default: Value when nobody gives one.
        parse: Checks a raw value and brings it into shape; raises ValueError saying what was expected.
        variable: Environment variable that sets it.
        meaning: One line of documentation.
        untrusted_may: Whether a home that is not trusted may set it to this value.
        secret: Whether its value must never be shown.
    """

    name: str
    default: Any
    parse: Callable[[object], Any]
    variable: str
    meaning: str
    untrusted_may: Callable[[object], bool]
    secret: bool = False


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            Setting(
                "embedder",
                "auto",
                _embedder,
                env.EMBEDDER,
                EMBEDDER_SPECS,
                is_harmless_embedder,
            ),
            Setting("embedder_url", None, _url, env.EMBEDDER_URL, env.VARIABLES[env.EMBEDDER_URL], _never),
            Setting(
                "embedder_key",
                None,
                _key,
                env.EMBEDDER_KEY,
                env.VARIABLES[env.EMBEDDER_KEY],
                _never,
                secret=True,
            ),
            Setting(
                "embedder_prompt",
                None,
                _prompt,
                env.EMBEDDER_PROMPT,
                env.VARIABLES[env.EMBEDDER_PROMPT],
                _never,
            ),
            Setting("embedder_dim", None, _dim, env.EMBEDDER_DIM, env.VARIABLES[env.EMBEDDER_DIM], _never),
            Setting(
                "lock_timeout", 30.0, _seconds, env.LOCK_TIMEOUT, env.VARIABLES[env.LOCK_TIMEOUT], _always
            ),
            Setting(
                "durability",
                "full",
                _one_of("full", "batched"),
                env.DURABILITY,
                env.VARIABLES[env.DURABILITY],
                _never,
            ),
            Setting(
                "store.mode",
                "shared",
                _one_of("shared", "exclusive"),
                env.STORE_MODE,
                env.VARIABLES[env.STORE_MODE],
                _never,
            ),
            Setting(
                "store.network",
                "refuse",
                _one_of("refuse", "allow"),
                env.STORE_NETWORK,
                env.VARIABLES[env.STORE_NETWORK],
                _never,
            ),
            Setting(
                "analyzer.name",
                "default",
                _one_of("default", "plain"),
                env.ANALYZER,
                env.VARIABLES[env.ANALYZER],
                _always,
            ),
            Setting(
                "analyzer.language",
                "english",
                _one_of(*LANGUAGES),
                env.ANALYZER_LANGUAGE,
                env.VARIABLES[env.ANALYZER_LANGUAGE],
                _always,
            ),
            Setting(
                "analyzer.expand",
                "missing",
                _one_of("missing", "always", "off"),
                env.ANALYZER_EXPAND,
                env.VARIABLES[env.ANALYZER_EXPAND],
                _always,
            ),
            Setting(
                "analyzer.synonyms",
                None,
                _synonyms,
                env.ANALYZER_SYNONYMS,
                env.VARIABLES[env.ANALYZER_SYNONYMS],
                _always,
            ),
            Setting(
                "log",
                "warning",
                _one_of("error", "warning", "info", "debug"),
                env.LOG,
                env.VARIABLES[env.LOG],
                _never,
            ),
            Setting("color", "auto", _one_of("auto", "never"), env.NO_COLOR, "auto or never", _always),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting that an untrusted home asked for and did not get.

    Attributes:
        name: Name of the setting.
        value: What it asked for; a secret is masked.
        reason: Why it was not followed, and the next step.
    """

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one call, each with the place it came from.

    Attributes:
        home: Absolute path of the home; it may not exist yet.
        home_source: How it was chosen: `flag`, `environment`, `found` or `default`.
        trusted: Whether its config.toml is followed in everything.
        ignored: What it asked for and did not get.
        home_file: Where the home's config.toml is or would be.
        user_file: Where the user's config.toml is or would be.
        foreign_owner: User id of the owner of a home that was found and belongs to somebody else.
    """

    home: Path
    home_source: HomeSource
    trusted: bool
    ignored: tuple[Ignored, ...]
    home_file: Path
    user_file: Path
    foreign_owner: int | None
    _entries: Mapping[str, tuple[Any, str]] = field(repr=False)

    def get(self, name: str) -> Any:
        """Returns the value of a setting; `home` is one too.

        Raises:
            InvalidInput: There is no such setting.
        """
        return self._entry(name)[0]

    def source(self, name: str) -> str:
        """Returns where the value came from: `flag`, `environment NAME`, a file, or `default`.

        Raises:
            InvalidInput: There is no such setting.
        """
        return self._entry(name)[1]

    def shown(self, name: str) -> Any:
        """Returns the value for showing: as `get`, but a secret is masked.

        Raises:
            InvalidInput: There is no such setting.
        """
        value = self.get(name)
        return MASK if name in SETTINGS and SETTINGS[name].secret and value is not None else value

    def ignored_in_short(self) -> str | None:
        """Returns one line on what an untrusted home asked for and did not get, None if nothing."""
        if not self.ignored:
            return None
        names = ", ".join(one.name for one in self.ignored)
        return f"settings of this home ignored until `otolith trust {shlex.quote(str(self.home))}`: {names}"

    def names(self) -> tuple[str, ...]:
        """Returns the names of all settings."""
        return tuple(self._entries)

    def may_follow_embedder(self, spec: str) -> bool:
        """Returns whether an embedder that the home itself names may be served.

        The home names one in its config.toml and in its store. One of an untrusted home is followed only if
        it neither loads code nor talks to a server.
        """
        return self.trusted or is_harmless_embedder(spec)

    def _entry(self, name: str) -> tuple[Any, str]:
        if name not in self._entries:
            raise _unknown(name)
        return self._entries[name]


def resolve(
    *, home: str | os.PathLike[str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Works out every setting.

    Args:
        home: The home, if the caller names one.
        flags: Settings the caller gives, by name; None stands for not given.

    Raises:
        InvalidInput: A value, a name or a config.toml cannot be understood; the message names the place.
    """
    path, source = choose_home(home)
    user_file = user_config_file()
    content = _read(path / FILE_NAME)
    reason = None
    foreign = None
    if source == "found":
        reason = None if _is_default_home(path) else trusted.why_not(path, content)
        owner = trusted.owner(path)
        foreign = owner if owner is not None and owner != os.getuid() else None
    layers = [
        _from_flags(flags or {}),
        _from_environment(),
        _from_file(path / FILE_NAME, content),
        _from_file(user_file, _read(user_file)),
    ]
    ignored = []
    if reason is not None:
        allowed = {}
        for name, (value, place) in layers[2].items():
            if SETTINGS[name].untrusted_may(value):
                allowed[name] = (value, place)
            else:
                shown = MASK if SETTINGS[name].secret else str(value)
                why = f"{path} was found, and {reason}; look at {place}, then say `otolith trust {path}`"
                ignored.append(Ignored(name, shown, why))
        layers[2] = allowed
    entries: dict[str, tuple[Any, str]] = {"home": (path, HOME_SOURCES[source])}
    for setting in SETTINGS.values():
        given = next((layer[setting.name] for layer in layers if setting.name in layer), None)
        entries[setting.name] = given or (setting.default, "default")
    return Settings(
        home=path,
        home_source=source,
        trusted=reason is None,
        ignored=tuple(ignored),
        home_file=path / FILE_NAME,
        user_file=user_file,
        foreign_owner=foreign,
        _entries=MappingProxyType(entries),
    )


def user_config_file() -> Path:
    """Returns where the user's own config.toml is or would be."""
    from platformdirs import user_config_path

    return user_config_path("otolith", appauthor=False) / FILE_NAME


def user_home() -> Path:
    """Returns the home in the user's data directory, the last resort."""
    from platformdirs import user_data_path

    return user_data_path("otolith", appauthor=False)


def write(file: Path, name: str, raw: str | None, *, mode: int = 0o600, follow: bool = False) -> Any:
    """Sets one setting in a config.toml and keeps the rest of it, comments included.

    Args:
        file: The config.toml; made when it is not there.
        name: Name of the setting.
        raw: The value as text; None removes the setting.
        mode: Permissions of a new file; those of an existing one stay.
        follow: Whether a symbolic link is followed: the user's own file may be one, a home's may not.

    Returns:
        The value as it will be read back, None if it was removed.

    Raises:
        InvalidInput: The name or value is wrong, or the file is broken as it is.
        StoreError: The file cannot be written.
    """
    import tomlkit  # 25 ms, and only this call writes

    setting = SETTINGS.get(name)
    if setting is None:
        raise _unknown(name)
    value = None
    if raw is not None:
        value = _checked(setting, raw, f"value for {name}")
    before = _read(file)
    _from_file(file, before)
    text = (before or b"").decode("utf-8-sig")
    document = tomlkit.parse(text)
    section, _, key = name.rpartition(".")
    if section and raw is not None and section not in document:
        document[section] = tomlkit.table()
    # A table of settings: `_from_file` refused anything else under that name.
    table: Any = document.get(section, {}) if section else document
    if raw is None:
        table.pop(key, None)
        if section and not table:
            document.pop(section, None)
    else:
        table[key] = value
    content = tomlkit.dumps(document).encode()
    if before is not None and before.startswith(b"\xef\xbb\xbf"):
        content = b"\xef\xbb\xbf" + content
    if file.is_symlink() and not follow:
        # It may have come with a cloned repository, and lead to any file of this user.
        raise InvalidInput(f"{file}: is a symbolic link; edit the file that it leads to", field=FILE_NAME)
    keep = stat.S_IMODE(file.stat().st_mode) if before is not None else mode
    replace_file(file, content, mode=keep & ~0o077 if setting.secret else keep)
    return value


def read_bytes(file: Path) -> bytes | None:
    """Returns the bytes of a config.toml, None if there is none.

    Raises:
        InvalidInput: It is no ordinary file, is too large, or cannot be read.
    """
    return _read(file)


def settings_in(file: Path, content: bytes | None) -> dict[str, Any]:
    """Returns what a config.toml sets, for showing: secrets are masked.

    Args:
        file: Its path, for messages.
        content: Its bytes, None when there is none.

    Raises:
        InvalidInput: It is broken or has names that are no settings.
    """
    found = _from_file(file, content)
    return {name: MASK if SETTINGS[name].secret else value for name, (value, _) in found.items()}


def choose_home(given: str | os.PathLike[str] | None) -> tuple[Path, HomeSource]:
    """Returns which directory is the home, and how it was chosen; it may not exist yet.

    Args:
        given: The home, if the caller names one.

    Raises:
        InvalidInput: What was named is no path.
    """
    if given is not None:
        return _absolute(os.fspath(given), "--home"), "flag"
    named = env.read(env.HOME)
    if named is not None:
        return _absolute(named, env.HOME), "environment"
    for directory in _upward():
        candidate = directory / ".otolith"
        if candidate.is_dir():
            return candidate, "found"
    return user_home(), "default"


def _upward() -> Iterator[Path]:
    try:
        here = Path.cwd()
    except OSError:
        # The working directory was removed: nothing lies above it.
        return
    yield from (here, *here.parents)


def _absolute(text: object, what: str) -> Path:
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(f"{what}: {text!r} is no path; give the directory of the memory", field="home")
    return Path(absolute("home", text))


def _is_default_home(path: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(user_home())


def _read(file: Path) -> bytes | None:
    # A cloned repository may hold a pipe or a device under this name: never wait on it, never read without
    # end.
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        descriptor = os.open(file, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        advice = f"give this user access to {file.parent}, or name another home"
        raise InvalidInput(f"{file}: no permission; {advice}", field=FILE_NAME) from None
    except OSError as error:
        advice = "mend or remove it"
        raise InvalidInput(f"{file}: cannot be read: {error.strerror}; {advice}", field=FILE_NAME) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidInput(f"{file}: is no ordinary file; mend or remove it", field=FILE_NAME)
        with open(descriptor, "rb", closefd=False) as opened:
            content = opened.read(_MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > _MAX_BYTES:
        raise InvalidInput(f"{file}: is larger than 1 MiB; mend or remove it", field=FILE_NAME)
    return content


def _from_flags(flags: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    found = {}
    for name, value in flags.items():
        if name not in SETTINGS:
            raise _unknown(name)
        if value is not None:
            found[name] = (_checked(SETTINGS[name], value, name), "flag")
    return found


def _from_environment() -> dict[str, tuple[Any, str]]:
    found = {}
    for setting in SETTINGS.values():
        raw = env.read(setting.variable)
        if raw is None:
            continue
        parsed = "never" if setting.variable == env.NO_COLOR else _checked(setting, raw, setting.variable)
        found[setting.name] = (parsed, f"environment {setting.variable}")
    return found


def _from_file(file: Path, content: bytes | None) -> dict[str, tuple[Any, str]]:
    if content is None:
        return {}
    import tomllib  # 8 ms, and most homes have no config.toml

    try:
        text = content.decode("utf-8-sig")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{file}:{line}: is not UTF-8; mend the line", field=FILE_NAME) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line_of = re.search(r"at line (\d+)", str(error))
        line = int(line_of[1]) if line_of else text.count("\n") + 1
        raise InvalidInput(f"{file}:{line}: is not TOML: {error}; mend the line", field=FILE_NAME) from None
    found = {}
    for name, raw in _flat(table):
        place = f"{file}:{_line_of(text, name)}"
        if "." in name and name in table:
            raise InvalidInput(f"{place}: {name} stands in quotes; write it without them", field=name)
        if name not in SETTINGS:
            raise _unknown(name, place)
        found[name] = (_checked(SETTINGS[name], raw, f"{place}: {name}"), place)
    return found


_SECTIONS: Final = frozenset(name.rpartition(".")[0] for name in SETTINGS) - {""}


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """The settings of a config.toml, those in a table under their dotted names."""
    for name, raw in table.items():
        if name in _SECTIONS and isinstance(raw, dict):
            yield from ((f"{name}.{key}", value) for key, value in raw.items())
        else:
            yield name, raw


def _line_of(text: str, name: str) -> int:
    """The line that sets a name; that of its table, or 1, if it is written in some unusual way."""
    section, _, key = name.rpartition(".")
    start = 0
    lines = text.split("\n")

    def find(pattern: str, start: int) -> int | None:
        head = re.compile(pattern)
        return next((place for place in range(start, len(lines)) if head.match(lines[place])), None)

    if section:
        dotted = find(
            rf"""\s*\[?\s*["']?{re.escape(section)}["']?\s*\.\s*["']?{re.escape(key)}["']?\s*[=\]]""", 0
        )
        if dotted is not None:
            return dotted + 1
        start = find(rf"""\s*\[?\s*["']?{re.escape(section)}["']?\s*[=\]]""", 0) or 0
    found = find(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""", start)
    return (start if found is None else found) + 1


def checked_embedder(spec: str) -> str:
    """Returns an embedder spec of usable form.

    Args:
        spec: Such as `none` or `openai:MODEL`.

    Raises:
        InvalidInput: It is of no known form.
    """
    return str(_checked(SETTINGS["embedder"], spec, "embedder"))


def checked_lock_timeout(seconds: object) -> float:
    """Returns the longest wait for writers, in seconds.

    Args:
        seconds: As of the setting.

    Raises:
        InvalidInput: It cannot be one.
    """
    return float(_checked(SETTINGS["lock_timeout"], seconds, "lock_timeout"))


def _checked(setting: Setting, raw: object, place: str) -> Any:
    try:
        return setting.parse(raw)
    except ValueError as error:
        # Python does not write out numbers of thousands of digits.
        shown = "a huge number" if isinstance(raw, int) and abs(raw) > 1 << 63 else repr(raw)
        found = "" if setting.secret else f", found {shown}"
        if isinstance(raw, str) and raw.strip().lower() in ("none", "null", "off", "") and not setting.secret:
            found += f"; to go without, leave it out (`otolith config set {setting.name} --unset`)"
        raise InvalidInput(f"{place}: {error}{found}", field=setting.name) from None


def _unknown(name: str, place: str | None = None) -> InvalidInput:
    near = difflib.get_close_matches(name, SETTINGS, n=1)
    advice = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(SETTINGS)}"
    return InvalidInput(f"{place or 'settings'}: there is no setting {name!r}; {advice}", field=name)
