"""Reading LoCoMo: a JSON document of long conversations, each turn one record.

::

    [{"sample_id": "conv-1",
      "conversation": {"speaker_a": …, "speaker_b": …,
                       "session_1_date_time": "1:56 pm on 8 May, 2023",
                       "session_1": [{"speaker": …, "dia_id": "D1:1", "text": …, "blip_caption": …}, …], …},
      "qa": …, "event_summary": …, "observation": …, "session_summary": …}, …]

Turns only: what was written about a conversation (questions, summaries, observations) is counted and left
out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from otolith._fields import record_fields, shown
from otolith.exceptions import InvalidInput, OtolithError

from .batches import Batches
from .foreign import zoned
from .streams import source, why_no_json

if TYPE_CHECKING:
    from otolith._core import Engine
    from otolith.records import ImportReport

__all__ = ["LARGEST", "holds_turn", "import_locomo", "read_document", "records_of", "samples_of"]

LARGEST = 512 << 20
"""Most bytes of a document: it is parsed in memory as a whole, at several times its size."""

_SESSION = re.compile(r"session_([0-9]{1,6})")
_DATE = re.compile(
    r"\s*([0-9]{1,2}):([0-9]{2})\s*([ap])\.?m\.?\s+on\s+([0-9]{1,2})\s+([a-z]+),?\s+([0-9]{4})\s*",
    re.IGNORECASE,
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_TURN = frozenset({"speaker", "dia_id", "text", "blip_caption"})


def import_locomo(
    engine: Engine,
    src: object,
    *,
    zone: str | None,
    progress: Callable[[int, int | None], object] | None,
) -> ImportReport:
    """Imports the turns of conversations.

    Args:
        engine: The open engine.
        src: A path, `-` for stdin, or an open file.
        zone: Zone of the times of sessions: an IANA name or `local`; by default UTC.
        progress: Called with (turns done, None).
    """
    batches = Batches(engine)
    with source(src, rewindable=False) as (stream, name):
        reader = _Reader(_parsed(read_document(stream, name), name), zone)
    for part in reader.parts():
        batches.read += part.turns
        if isinstance(part.content, OtolithError):
            batches.fail(part.path, part.content)
        elif batches.add(part.path, part.content, len(part.content["summary"])):
            batches.write()
            if progress is not None:
                progress(batches.read, None)
    batches.write()
    if progress is not None:
        progress(batches.read, batches.read)
    return batches.report(reader.ignored)


def holds_turn(engine: Engine, content: bytes, name: str, *, zone: str | None) -> bool:
    """Whether a document has at least one turn that can be imported.

    Args:
        engine: An engine in RAM that takes that turn.
        content: The document.
        name: Its name for messages.
        zone: As in `import_locomo`.
    """
    for part in _Reader(_parsed(content, name), zone).parts():
        if isinstance(part.content, OtolithError):
            continue
        trial = Batches(engine)
        trial.add(part.path, part.content, 0)
        trial.write()
        if trial.taken:
            return True
    return False


def samples_of(document: Any) -> list[Any]:
    """The conversations of a document, parsed; none when nothing in it is one."""
    samples = document if isinstance(document, list) else [document]
    is_locomo = any(isinstance(sample, dict) and "conversation" in sample for sample in samples)
    return samples if is_locomo else []


def records_of(sample: object, *, zone: str | None) -> list[dict[str, Any]]:
    """The turns of one conversation as fields of records.

    Args:
        sample: It, parsed.
        zone: As in `import_locomo`.

    Raises:
        InvalidInput: A turn, or the time of a session, cannot be read.
    """
    reader = _Reader(sample, zone)
    records = []
    for part in reader.parts():
        if isinstance(part.content, OtolithError):
            raise part.content
        records.append(part.content)
    return records


def read_document(stream: BinaryIO, name: str) -> bytes:
    """All bytes of a document.

    Args:
        stream: It.
        name: Its name for messages.

    Raises:
        InvalidInput: It is too large.
    """
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(1 << 20):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise InvalidInput(
                f"src: {name} is larger than {LARGEST >> 20} MiB, too much for one JSON document; split it "
                "into several with some conversations each",
                field="src",
            )
    return b"".join(pieces)


class _Part(NamedTuple):
    """One turn, or something that cannot be read.

    Attributes:
        path: Where it is in the document.
        content: The fields of the record, or what is wrong.
        turns: How many turns it stands for.
    """

    path: str
    content: dict[str, Any] | OtolithError
    turns: int


class _Reader:
    """Makes records of a document.

    Args:
        document: It, parsed.
        zone: Zone of the times of sessions.

    Raises:
        InvalidInput: There is no such zone.
    """

    def __init__(self, document: Any, zone: str | None) -> None:
        self._zone = _utc if zone is None else zoned(zone)
        self._document = document
        self.ignored: dict[str, int] = {}

    def parts(self) -> Iterator[_Part]:
        """All turns, in the order of samples and sessions."""
        many = isinstance(self._document, list)
        samples: list[Any] = self._document if many else [self._document]
        for number, sample in enumerate(samples):
            yield from self._sample(f"$[{number}]" if many else "$", sample)

    def _sample(self, path: str, sample: Any) -> Iterator[_Part]:
        if not isinstance(sample, dict):
            yield _broken(path, "is no object", field="sample")
            return
        name, conversation = sample.get("sample_id"), sample.get("conversation")
        if not isinstance(name, str) or not name.strip():
            yield _broken(f"{path}.sample_id", f"give a name, not {shown(name)}", field="sample_id")
            return
        if not isinstance(conversation, dict):
            yield _broken(f"{path}.conversation", "is no object", field="conversation")
            return
        for other, value in sample.items():
            if other not in ("sample_id", "conversation"):
                self._leave(other, len(value) if isinstance(value, (list, dict)) else 1)
        sessions = sorted((int(found[1]), key) for key in conversation if (found := _SESSION.fullmatch(key)))
        seen: set[str] = set()
        for _, key in sessions:
            yield from self._session(f"{path}.conversation", name, key, conversation, seen)
        used = {key for _, key in sessions}
        for key in conversation:
            if key.removesuffix("_date_time") not in used and key not in ("speaker_a", "speaker_b"):
                self._leave("date_time without session" if key.endswith("_date_time") else key, 1)

    def _session(
        self, path: str, sample: str, key: str, conversation: dict[str, Any], seen: set[str]
    ) -> Iterator[_Part]:
        turns = conversation.get(key)
        if not isinstance(turns, list):
            yield _broken(f"{path}.{key}", "is no list of turns", field=key)
            return
        try:
            moment = self._moment(conversation.get(f"{key}_date_time"))
        except InvalidInput as error:
            yield _Part(f"{path}.{key}_date_time", error, len(turns))
            return
        for place, turn in enumerate(turns):
            where = f"{path}.{key}[{place}]"
            try:
                yield _Part(where, self._turn(turn, sample, f"{sample}/{key}", moment, seen), 1)
            except OtolithError as error:
                yield _Part(where, error, 1)

    def _turn(self, turn: Any, sample: str, session: str, moment: datetime, seen: set[str]) -> dict[str, Any]:
        if not isinstance(turn, dict):
            raise InvalidInput("turn: is no object", field="turn")
        speaker, dialog, text, caption = (
            turn.get(key) for key in ("speaker", "dia_id", "text", "blip_caption")
        )
        for field, value in (("speaker", speaker), ("dia_id", dialog)):
            if not isinstance(value, str) or not value.strip():
                raise InvalidInput(f"{field}: give a name, not {shown(value)}", field=field)
        if dialog in seen:
            raise InvalidInput(f"dia_id: {dialog} comes twice in {sample}", field="dia_id")
        for field, value in (("text", text), ("blip_caption", caption)):
            if value is not None and not isinstance(value, str):
                raise InvalidInput(f"{field}: give text, not {shown(value)}", field=field)
        said = [text] if text and text.strip() else []
        if caption and caption.strip():
            said.append(f"[shares {caption.strip()}]")
        if not said:
            raise InvalidInput("text: is empty, and there is no blip_caption", field="text")
        record = record_fields(
            {
                "summary": " ".join(said),
                "source": "conversation",
                "origin": "import",
                "actor": speaker,
                "session_id": session,
                "key": f"import:locomo:{sample}:{dialog}",
                "occurred_at": moment,
                "metadata": {"sample_id": sample, "dia_id": dialog},
            }
        )
        seen.add(str(dialog))
        for key in turn:
            if key not in _TURN:
                self._leave(key, 1)
        return record

    def _moment(self, text: Any) -> datetime:
        found = _DATE.fullmatch(text) if isinstance(text, str) else None
        month = found[5].lower() if found else ""
        try:
            if found is None or month not in _MONTHS or not 1 <= int(found[1]) <= 12:
                raise ValueError
            hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
            return self._zone(
                datetime(int(found[6]), _MONTHS.index(month) + 1, int(found[4]), hour, int(found[2]))
            )
        except (OverflowError, OSError, ValueError):
            raise InvalidInput(
                f"date_time: {shown(text)} is not a time such as 1:56 pm on 8 May, 2023; the session is "
                "left out",
                field="date_time",
            ) from None

    def _leave(self, name: str, count: int) -> None:
        self.ignored[name] = self.ignored.get(name, 0) + count


def _utc(naive: datetime) -> datetime:
    return naive.replace(tzinfo=UTC)


def _broken(path: str, what: str, *, field: str) -> _Part:
    return _Part(path, InvalidInput(f"{field}: {what}", field=field), 0)


def _parsed(content: bytes, name: str) -> Any:
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"src: {name} is not UTF-8 at byte {error.start}; convert it first", field="src"
        ) from None
    except RecursionError:
        raise InvalidInput(f"src: {name} is nested too deeply; give a LoCoMo document", field="src") from None
    except ValueError as error:
        raise InvalidInput(
            f"src: {name} is not JSON: {why_no_json(error)}; give a LoCoMo document", field="src"
        ) from None
    if not samples_of(document):
        raise InvalidInput(
            f"src: {name} is no LoCoMo document: nothing in it has a conversation; for JSON lines pass "
            'format="jsonl" (--format jsonl)',
            field="src",
        )
    return document
