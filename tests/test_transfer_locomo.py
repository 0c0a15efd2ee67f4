"""LoCoMo: every turn a record that evidence can be mapped to; what is broken is told by its path."""

from __future__ import annotations

import copy
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli
from otolith import Filter, InvalidInput, Memory
from otolith.transfer import locomo

FILE = Path(__file__).parent / "data" / "imports" / "locomo.json"
TURN = {"speaker": "Ada", "dia_id": "D1:1", "text": "hi"}


def document() -> Any:
    return json.loads(FILE.read_text(encoding="utf-8"))


def load(memory: Memory, content: Any, **how: Any) -> Any:
    return memory.import_(io.BytesIO(json.dumps(content).encode()), format="locomo", **how)


def one_session(turns: Any, date: Any = "1:56 pm on 8 May, 2024") -> Any:
    return [
        {"sample_id": "s", "conversation": {"session_1_date_time": date, "session_1": turns}},
    ]


def test_every_turn_is_a_record_in_the_order_of_the_sessions(memory: Memory) -> None:
    report = memory.import_(FILE, format="locomo")
    assert (report.read, report.created, report.failed) == (6, 6, ())
    found = list(memory.episodes(newest_first=False))
    assert [(one.session_id, one.actor) for one in found] == [
        ("made-1/session_1", "Ada"),
        ("made-1/session_1", "Ada"),
        ("made-1/session_1", "Ben"),
        ("made-1/session_2", "Ben"),
        ("made-1/session_10", "Ada"),
        ("made-2/session_1", "Cem"),
    ]
    assert found[1].summary == "Look at it. [shares a painting of a lighthouse at dusk]"
    assert found[2].summary == "[shares a thumb that points up]"
    assert found[1].key == "import:locomo:made-1:D1:2"
    assert found[1].metadata == {"sample_id": "made-1", "dia_id": "D1:2"}
    assert {(one.source, one.origin, one.trust) for one in found} == {("conversation", "import", "untrusted")}
    assert [one.occurred_at for one in found[2:]] == [
        datetime(2024, 5, 8, 13, 56, tzinfo=UTC),
        datetime(2024, 6, 1, 0, 7, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        datetime(2023, 12, 31, 23, 59, tzinfo=UTC),
    ]


def test_sessions_of_one_number_are_told_apart_by_their_names(memory: Memory) -> None:
    conversation = {
        "session_01_date_time": "1:56 pm on 8 May, 2024",
        "session_01": [TURN],
        "session_1_date_time": "1:56 pm on 9 May, 2024",
        "session_1": [{**TURN, "dia_id": "D2:1"}],
    }
    report = load(memory, [{"sample_id": "s", "conversation": conversation}])
    assert (report.created, report.failed, dict(report.ignored)) == (2, (), {})
    found = [(one.session_id, one.occurred_at.day) for one in memory.episodes(newest_first=False)]  # type: ignore[union-attr]
    assert found == [("s/session_01", 8), ("s/session_1", 9)]
    del conversation["session_1"], conversation["session_1_date_time"]
    assert load(memory, [{"sample_id": "t", "conversation": conversation}]).created == 1


def test_evidence_leads_to_its_turn(memory: Memory) -> None:
    memory.import_(FILE, format="locomo")
    for sample in document():
        for question in sample.get("qa", ()):
            for evidence in question["evidence"]:
                where = Filter(metadata={"sample_id": sample["sample_id"], "dia_id": evidence})
                assert memory.count(where) == 1
    assert memory.recall("the lighthouse")[0].episode.metadata["dia_id"] == "D1:2"


def test_what_is_left_out_is_counted(memory: Memory) -> None:
    assert memory.import_(FILE, format="locomo").ignored == {
        "qa": 2,
        "event_summary": 1,
        "observation": 1,
        "session_summary": 2,
        "img_url": 1,
        "query": 1,
        "re-download": 1,
        "date_time without session": 1,
    }


def test_importing_again_changes_nothing_and_a_changed_turn_is_replaced(memory: Memory) -> None:
    memory.import_(FILE, format="locomo")
    before = list(memory.episodes())
    again = memory.import_(FILE, format="locomo")
    assert (again.created, again.replaced, again.unchanged) == (0, 0, 6)
    assert list(memory.episodes()) == before
    changed = document()
    changed[1]["conversation"]["session_1"][0]["text"] = "Happy new year!"
    report = load(memory, changed)
    assert (report.created, report.replaced, report.unchanged) == (0, 1, 5)


def test_times_are_of_the_zone_that_is_named(memory: Memory) -> None:
    memory.import_(FILE, format="locomo", zone="Asia/Shanghai")
    found = next(memory.episodes(Filter(session_id="made-1/session_1")))
    assert found.occurred_at.isoformat() == "2024-05-08T13:56:00+08:00"
    with pytest.raises(InvalidInput, match="no zone 'Mars/Olympus'"):
        memory.import_(FILE, format="locomo", zone="Mars/Olympus")


def test_one_conversation_alone_is_a_document_too(memory: Memory) -> None:
    assert load(memory, document()[1]).created == 1
    broken = copy.deepcopy(document()[1])
    broken["conversation"]["session_1"][0]["text"] = 7
    (failed,) = load(memory, broken).failed
    assert failed[0] == "$.conversation.session_1[0]"


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        ({**TURN, "speaker": None}, "speaker: give a name, not None"),
        ({**TURN, "speaker": " "}, "speaker: give a name"),
        ({**TURN, "dia_id": 3}, "dia_id: give a name, not 3"),
        ({**TURN, "text": ["hi"]}, "text: give text"),
        ({**TURN, "text": " "}, "text: is empty"),
        ({**TURN, "blip_caption": {}}, "blip_caption: give text"),
        ({**TURN, "text": "\ud800"}, "summary: holds a lone surrogate"),
        ({"dia_id": "D1:9"}, "speaker: give a name, not None"),
        ({**TURN, "dia_id": "D1:0"}, "dia_id: D1:0 comes twice in s"),
        ("hi", "turn: is no object"),
        (None, "turn: is no object"),
    ],
)
def test_a_broken_turn_is_told_by_its_path_and_the_rest_is_imported(
    memory: Memory, turn: Any, message: str
) -> None:
    first, last = {**TURN, "dia_id": "D1:0"}, {**TURN, "dia_id": "D1:2"}
    report = load(memory, one_session([first, turn, last]))
    assert (report.read, report.created) == (3, 2)
    ((path, error),) = report.failed
    assert path == "$[0].conversation.session_1[1]"
    assert str(error).startswith(message)


@pytest.mark.parametrize(
    "date",
    [
        None,
        "",
        "8 May, 2024",
        "13:56 pm on 8 May, 2024",
        "0:56 pm on 8 May, 2024",
        "1:60 pm on 8 May, 2024",
        "1:56 pm on 31 June, 2024",
        "1:56 pm on 8 Mai, 2024",
        "1:56 pm on 8 May, 0000",
        "٣:56 pm on 8 May, 2024",
        20240508,
    ],
)
def test_a_session_without_a_usable_time_is_told_and_left_out(memory: Memory, date: Any) -> None:
    content = one_session([TURN, {**TURN, "dia_id": "D1:2"}], date)
    content[0]["conversation"] |= {
        "session_2_date_time": "1:56 PM on 8 may 2024",
        "session_2": [{**TURN, "dia_id": "D2:1"}],
    }
    report = load(memory, content)
    assert (report.read, report.created) == (3, 1)
    ((path, error),) = report.failed
    assert path == "$[0].conversation.session_1_date_time"
    assert "such as 1:56 pm on 8 May, 2023" in str(error)


@pytest.mark.parametrize(
    ("sample", "path"),
    [
        ({"conversation": {}}, "$[1].sample_id"),
        ({"sample_id": 4, "conversation": {}}, "$[1].sample_id"),
        ({"sample_id": "x", "conversation": []}, "$[1].conversation"),
        ({"sample_id": "x"}, "$[1].conversation"),
        ({"sample_id": "x", "conversation": {"session_1": "hi"}}, "$[1].conversation.session_1"),
        ([], "$[1]"),
    ],
)
def test_a_broken_conversation_is_told_by_its_path(memory: Memory, sample: Any, path: str) -> None:
    report = load(memory, [*one_session([TURN]), sample])
    assert report.created == 1
    assert [place for place, _ in report.failed] == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"summary": "a"}\n{"summary": "b"}\n', "is not JSON"),
        (b'{"a": 1}', "is no LoCoMo document"),
        (b"[]", "is no LoCoMo document"),
        (b"7", "is no LoCoMo document"),
        (b"\xff\xfe[\x00]\x00", "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_is_no_document_is_refused(memory: Memory, content: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        memory.import_(io.BytesIO(content), format="locomo")
    assert len(memory) == 0


def test_a_document_that_is_too_large_is_refused(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locomo, "LARGEST", 3 << 20)

    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += size
            return b" " * size

        def readable(self) -> bool:
            return True

    endless = Endless()
    with pytest.raises(InvalidInput, match=r"is larger than 3 MiB.*split it"):
        memory.import_(endless, format="locomo")
    assert endless.given < 8 << 20


def test_a_mapping_is_for_json_lines(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="jsonl"):
        memory.import_(FILE, format="locomo", mapping={"summary": "text"})
    with pytest.raises(InvalidInput, match="otolith, jsonl, locomo"):
        memory.import_(FILE, format="loco")  # type: ignore[arg-type]


def test_more_than_a_batch(memory: Memory) -> None:
    turns = [{**TURN, "dia_id": f"D1:{number}", "text": f"turn {number}"} for number in range(1234)]
    turns[600]["text"] = ""
    told: list[tuple[int, int | None]] = []
    report = load(memory, one_session(turns), progress=lambda done, total: told.append((done, total)))
    assert (report.read, report.created, len(report.failed)) == (1234, 1233, 1)
    assert [one.summary for one in memory.episodes(newest_first=False)][599:601] == ["turn 599", "turn 601"]
    assert told == [(500, None), (1001, None), (1234, 1234)]


def test_on_the_command_line(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    content = document()
    content[1]["conversation"]["session_1"][0]["text"] = None
    (cli.cwd / "talk.json").write_text(json.dumps(content))
    answer = cli("import", "talk.json", "--format", "locomo", code=1)
    assert "talk.json:$[1].conversation.session_1[0]: text: is empty" in answer.err
    assert "read 6 records: 5 new" in answer.err
    assert "only turns are imported; left out: qa (2), event_summary (1)" in answer.err
    answer = cli("import", "-", "--format", "locomo", "--json", code=1, input=json.dumps(content))
    assert answer.json["unchanged"] == 5
    assert answer.json["failed"][0]["path"] == "$[1].conversation.session_1[0]"
    cli("import", "talk.json", "--format", "locomo", "--key", "id", code=2)


def test_a_document_of_no_use_makes_no_home(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    (cli.cwd / "talk.json").write_text(json.dumps(one_session([{**TURN, "text": ""}])))
    answer = cli("import", "talk.json", "--format", "locomo", code=1)
    assert "no memory was made" in answer.err
    assert not cli.home.exists()
    cli("import", "-", "--format", "locomo", input=json.dumps(one_session([TURN])))
    assert cli.home.exists()
