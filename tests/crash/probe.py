"""Asks a damaged store everything, in a process of its own, and compares with what was written.

What may come: the right answer; a typed error; an answer that lacks records while the handle says so.
What may not: another text, a second record under a key, records missing in silence, any other exception.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from otolith import Filter, Memory, NotFound, OtolithError, StoreError

from .content import EMBEDDER, as_fields, vector_of, word

Say = Callable[[Any], None]
TEXTS = {"get", "list", "recall", "dirs", "export"}
"""Steps whose answer lacks a record when they lack something; the others lack vectors."""


@dataclass
class Original:
    """What the undamaged store holds."""

    home: Path
    images: tuple[bytes, ...]
    """The file as it was left in different ways; each holds the same."""
    records: dict[str, dict[str, Any]]
    """By id: the fields of `as_fields`."""
    vectors: dict[str, Any]
    """By id: the vectors as they are exported."""
    earlier: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By id: every form a record ever had, those of forgotten ones too."""


@dataclass
class Findings:
    """What one image showed."""

    wrong: list[str] = field(default_factory=list)
    """What must never be."""
    errors: dict[str, str] = field(default_factory=dict)
    """Typed errors by step."""
    absent: dict[str, int] = field(default_factory=dict)
    """Records that an answer lacked, by step."""
    earlier: list[str] = field(default_factory=list)
    """Answers that were true before the last writes."""
    told: int = 0
    """Records and vectors the handle said it leaves out."""
    pending: int = 0
    """Records the coverage says lack a vector: `embed_pending` makes them again."""
    step: str = "open"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "wrong": self.wrong,
            "errors": self.errors,
            "absent": self.absent,
            "earlier": self.earlier[:5],
            "told": self.told,
            "pending": self.pending,
            "step": self.step,
        }


class Probe:
    """All questions to one image."""

    def __init__(self, original: Original, home: Path, say: Say) -> None:
        self.original = original
        self.home = home
        self.say = say
        self.found = Findings()

    def run(self) -> None:
        """Asks, and says after each step how far it came: what ends the process is known by its step."""
        try:
            memory = self._step("open", lambda: Memory.open(self.home, embedder=EMBEDDER))
            if memory is None:
                return
            for work in (
                self._get,
                self._list,
                self._recall,
                self._vectors,
                self._dirs,
                self._export,
                self._coverage,
                self._status,
                self._remember,
                self._again,
            ):
                self._step(work.__name__.strip("_"), partial(work, memory))
            self._step("close", memory.close)
        finally:
            self._judge()
            self.found.step = "end"
            self.say(self.found.to_dict())

    def _step(self, name: str, work: Callable[[], Any]) -> Any:
        self.found.step = name
        self.say(self.found.to_dict())
        try:
            return work()
        except OtolithError as error:
            if not isinstance(error, StoreError):
                self.found.wrong.append(f"{name}: {type(error).__name__}: {error}")
            elif str(self.home) not in str(error):
                self.found.wrong.append(f"{name}: names no path: {error}")
            self.found.errors[name] = f"{type(error).__name__}: {error}"
        except BaseException as error:  # noqa: BLE001 - a panic that came through is what is looked for
            self.found.wrong.append(f"{name}: {type(error).__module__}.{type(error).__name__}: {error}")
        return None

    # -- reading ------------------------------------------------------------------------------------------

    def _get(self, memory: Memory) -> None:
        refused, absent = "", 0
        for one, fields in self.original.records.items():
            try:
                episode = memory.get(one)
            except NotFound:
                absent += 1
            except StoreError as error:
                refused = refused or f"{type(error).__name__}: {error}"
            else:
                if episode.id != one or as_fields(episode) != fields:
                    self._differs("get", episode.id, as_fields(episode))
        if absent:
            self.found.absent["get"] = absent
        if refused:
            self.found.errors["get"] = refused

    def _list(self, memory: Memory) -> None:
        seen = {episode.id: as_fields(episode) for episode in memory.episodes()}
        self._compare("list", seen)
        counted = memory.count()
        if counted != len(seen):
            self.found.wrong.append(f"list: {len(seen)} listed, {counted} counted")

    def _recall(self, memory: Memory) -> None:
        absent = 0
        for one, fields in list(self.original.records.items())[::8]:
            name = fields["metadata"]["name"]
            report = memory.recall(word(name), legs=["lexical"])
            ids = [hit.id for hit in report]
            if ids == [one]:
                if as_fields(report[0].episode) != fields:
                    self._differs("recall", one, as_fields(report[0].episode))
            elif ids:
                self.found.wrong.append(f"recall: the word of {one} finds {ids}")
            else:
                absent += 1
        if absent:
            self.found.absent["recall"] = absent

    def _vectors(self, memory: Memory) -> None:
        """A record's own vector finds it first; without its row it is found by nothing."""
        for one, fields in list(self.original.records.items())[::16]:
            metadata = fields["metadata"]
            if metadata["given"]:
                row = vector_of(metadata["name"], metadata["version"])
                report = memory.recall(vector=row, k=1, legs=["vector"])
                if [hit.id for hit in report] != [one]:
                    self.found.absent["vectors"] = self.found.absent.get("vectors", 0) + 1

    def _dirs(self, memory: Memory) -> None:
        for where in ("/work/a", "/work/b/x"):
            listed = {episode.id for episode in memory.episodes(Filter(working_dir=where, below=True))}
            wanted = {
                one
                for one, fields in self.original.records.items()
                if f"{fields['working_dir']}/".startswith(f"{where}/")
            }
            if listed - wanted - self.original.earlier.keys():
                self.found.wrong.append(f"dirs: {listed - wanted} are not below {where}")
            if lost := len(wanted - listed):
                self.found.absent["dirs"] = self.found.absent.get("dirs", 0) + lost

    def _export(self, memory: Memory) -> None:
        file = io.BytesIO()
        report = memory.export(file)
        seen: dict[str, dict[str, Any]] = {}
        bare = 0
        for line in file.getvalue().splitlines():
            record = json.loads(line)
            if "summary" not in record:
                continue
            told: dict[str, Any] = {
                "body": None,
                "key": None,
                "working_dir": None,
                "tags": [],
                "metadata": {},
            }
            seen[record["id"]] = {name: record.get(name, told.get(name)) for name in (*told, "summary")}
            rows = record.get("vectors")
            wanted = self.original.vectors.get(record["id"])
            if rows == wanted:
                continue
            if not rows or _is_part(rows, wanted):
                bare += 1
            elif not self.found.earlier:
                self.found.wrong.append(f"export: {record['id']} has another vector")
        self._compare("export", seen)
        if bare:
            self.found.absent["export of vectors"] = bare
        missing = len(self.original.records) - len(seen)
        if missing and report.unreadable < missing:
            self.found.wrong.append(f"export: lacks {missing} records and says {report.unreadable}")

    def _coverage(self, memory: Memory) -> None:
        coverage = memory.coverage()
        states = coverage.vectorized + coverage.pending + coverage.stale
        if states + coverage.refused + coverage.dimension_mismatches != coverage.total:
            self.found.wrong.append(f"coverage does not add up: {coverage}")
        if lost := len(self.original.records) - coverage.vectorized:
            self.found.absent["coverage"] = lost
        self.found.pending = coverage.pending

    def _status(self, memory: Memory) -> None:
        status = memory.status()
        self.found.told = status.unreadable
        if status.unreadable and not status.notices:
            self.found.wrong.append(f"status: {status.unreadable} unreadable, without a notice")

    # -- writing ------------------------------------------------------------------------------------------

    def _remember(self, memory: Memory) -> None:
        new = memory.remember("written after the damage", metadata={"n": 1})
        if memory.get(new.id).summary != "written after the damage":
            self.found.wrong.append("remember: another text came back")

    def _again(self, memory: Memory) -> None:
        """A record with a key, written again, stays one record."""
        for one, fields in self.original.records.items():
            if fields["key"] is None:
                continue
            given = {name: value for name, value in fields.items() if value is not None}
            episode = memory.remember(**given, actor="w0")
            if episode.id != one:
                twice = [found.id for found in memory.episodes(Filter(key=fields["key"]))]
                self.found.wrong.append(f"again: the key of {one} made {episode.id}, there are {twice}")
            break

    # -- what it means ------------------------------------------------------------------------------------

    def _compare(self, step: str, seen: dict[str, dict[str, Any]]) -> None:
        for one, fields in seen.items():
            if fields != self.original.records.get(one):
                self._differs(step, one, fields)
        if lost := len(self.original.records.keys() - seen.keys()):
            self.found.absent[step] = lost

    def _differs(self, step: str, one: str, fields: dict[str, Any]) -> None:
        found = self.found.earlier if fields in self.original.earlier.get(one, ()) else self.found.wrong
        found.append(f"{step}: {one} is {fields}")

    def _judge(self) -> None:
        """Silence about what is missing is as wrong as a wrong text.

        Vectors alone are told by the coverage. Some of the vectors of a long record may be lost unseen: its
        text is found by words and by the vectors that are left.
        """
        texts = {name: lost for name, lost in self.found.absent.items() if name in TEXTS}
        whole_vectors = {name: lost for name, lost in self.found.absent.items() if name == "coverage"}
        if self.found.earlier:
            return  # an earlier state of the store lacks what came later
        if texts and not self.found.told and not self.found.errors:
            self.found.wrong.append(f"missing in silence: {texts}")
        if whole_vectors and not (self.found.told or self.found.errors or self.found.pending):
            self.found.wrong.append(f"vectors missing in silence: {whole_vectors}")


def _is_part(rows: list[dict[str, Any]], wanted: list[dict[str, Any]] | None) -> bool:
    """Whether these are some of the vectors of a record with several, each as it was."""
    if not wanted or len(rows) != 1 or {**rows[0], "f32": ""} != {**wanted[0], "f32": ""}:
        return False
    width = 4 * int(wanted[0]["dim"])
    there, all_of_them = base64.b64decode(rows[0]["f32"]), base64.b64decode(wanted[0]["f32"])
    known = {all_of_them[at : at + width] for at in range(0, len(all_of_them), width)}
    return all(there[at : at + width] in known for at in range(0, len(there), width))
