"""Which homes this user trusts to name servers and load code through their config.toml.

A home that is found by walking up from the working directory may have come with a cloned repository, so its
config.toml is followed only in harmless things until the user says `otolith trust DIR`. What is recorded
then:

- the real path of the home, symbolic links resolved: a link cannot borrow the trust of another directory;
- who owns it: a directory put in its place by another user is not trusted;
- a SHA-256 of its config.toml: when the file changes later, for instance by pulling a new commit, the home is
  not trusted any more until the user looks and says so again. `otolith config set` renews it by itself.

One small file a home, so that two processes that trust different homes cannot lose each other's record. The
files lie in the user's state directory, readable by the user only.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from otolith._files import replace_file
from otolith.exceptions import InvalidInput

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """What the user agreed to.

    Attributes:
        path: Real path of the home.
        uid: Owner of the home at that time; None where the system has no such thing.
        config_sha256: Hash of its config.toml; None when there was none.
        since: When it was trusted, seconds since 1970.
    """

    path: str
    uid: int | None
    config_sha256: str | None
    since: float


def state_dir() -> Path:
    """Returns the directory that holds the records."""
    from platformdirs import user_state_path

    return user_state_path("otolith", appauthor=False) / "trusted"


def digest(content: bytes | None) -> str | None:
    """Returns the hash that is compared, of the bytes of a config.toml; None stands for no such file."""
    return None if content is None else _sha256(content)


def owner(path: str | os.PathLike[str]) -> int | None:
    """Returns the user id that owns a path; None where the system has none or the path cannot be read."""
    if not hasattr(os, "getuid"):
        return None
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def find_home(directory: str | os.PathLike[str]) -> Path:
    """Returns the real path of the home that `directory` is, or that lies in it as `.otolith`.

    Raises:
        InvalidInput: There is no home.
    """
    real = Path(os.path.realpath(os.path.expanduser(directory)))
    inner = real / ".otolith"
    if real.name != ".otolith" and inner.is_dir():
        return Path(os.path.realpath(inner))
    is_home = real.name == ".otolith" or any(
        (real / name).exists() for name in ("episodes.redb", "config.toml")
    )
    if not real.is_dir() or not is_home:
        raise InvalidInput(
            f"no memory in {real}; name a home or a directory that has one as .otolith", field="DIR"
        )
    return real


def why_not(home: Path, content: bytes | None) -> str | None:
    """Returns why a home is not trusted, None if it is.

    Args:
        home: The home; symbolic links are resolved here.
        content: The bytes of its config.toml as they will be used, None when there is none.
    """
    real = os.path.realpath(home)
    record = _load(_file_of(real))
    if record is None or record.path != real:
        return "nobody said `otolith trust` for it"
    if record.uid != owner(real):
        return "its owner changed since it was trusted"
    if record.config_sha256 != digest(content):
        return "its config.toml changed since it was trusted"
    return None


def why_not_now(record: TrustRecord) -> str | None:
    """Returns why a record gives no trust as things are now, None if it does."""
    home = Path(record.path)
    if not home.is_dir():
        return "it is gone"
    try:
        content = (home / "config.toml").read_bytes()
    except FileNotFoundError:
        content = None
    except OSError as error:
        return f"its config.toml cannot be read: {error.strerror}"
    return why_not(home, content)


def add(home: Path, content: bytes | None) -> TrustRecord:
    """Records that the user trusts a home with this content of its config.toml.

    Raises:
        StoreError: The record cannot be written.
    """
    real = os.path.realpath(home)
    record = TrustRecord(path=real, uid=owner(real), config_sha256=digest(content), since=time.time())
    target = _file_of(real)
    text = json.dumps({"format": _FORMAT, **asdict(record)}, indent=1) + "\n"
    replace_file(target, text.encode(), mode=0o600)
    return record


def remove(home: str | os.PathLike[str]) -> bool:
    """Forgets the trust in a home, also one that is gone. Returns whether there was any."""
    real = os.path.realpath(os.path.expanduser(home))
    found = False
    for path in (real, os.path.realpath(os.path.join(real, ".otolith"))):
        with suppress(FileNotFoundError):
            _file_of(path).unlink()
            found = True
    return found


def records() -> Iterator[TrustRecord]:
    """Yields what is recorded, sorted by path."""
    directory = state_dir()
    names = sorted(directory.glob("*.json")) if directory.is_dir() else []
    loaded = (_load(name) for name in names)
    yield from sorted((record for record in loaded if record is not None), key=lambda record: record.path)


def _file_of(real: str) -> Path:
    return state_dir() / f"{_sha256(os.fsencode(real))}.json"


def _sha256(content: bytes) -> str:
    import hashlib  # loads OpenSSL, 10 ms; only homes that were found need it

    return hashlib.sha256(content).hexdigest()


def _load(file: Path) -> TrustRecord | None:
    """Anything that is not exactly what `add` wrote gives no trust."""
    try:
        if hasattr(os, "getuid") and os.stat(file).st_uid != os.getuid():
            return None
        values = json.loads(file.read_bytes())
        if values.pop("format") != _FORMAT:
            return None
        record = TrustRecord(**values)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return record if isinstance(record.path, str) else None
