"""What the state machine does to a memory: here, or in a process of its own that is driven over a pipe."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from otolith import Conflict, Filter, Memory, NotFound

DIM = 32
"""Width of the embedder that a home begins with."""


def given_row(seed: int, dim: int) -> np.ndarray:
    """The vector that a caller brings along, known by its seed."""
    row = np.random.default_rng(seed).standard_normal(dim).astype(np.float32)
    return row / np.linalg.norm(row)


def remember(memory: Memory, seed: int | None = None, dim: int = DIM, **given: Any) -> str:
    return memory.remember(vector=None if seed is None else given_row(seed, dim), **given).id


def remember_many(memory: Memory, records: list[dict[str, Any]], embed: Any) -> list[str | None]:
    report = memory.remember_many(records, embed=embed)
    assert report.failed == ()
    return list(report.ids)


def update(memory: Memory, id: str, expect: str | None = None, **fields: Any) -> str:
    try:
        moment = None if expect is None else datetime.fromisoformat(expect)
        return memory.update(id, expect=moment, **fields).updated_at.isoformat()
    except Conflict:
        return "Conflict"
    except NotFound:
        return "NotFound"


def read(memory: Memory, id: str) -> str:
    return memory.get(id).updated_at.isoformat()


def trust(memory: Memory, id: str) -> str:
    return str(memory.trust(id).trust)


def forget(memory: Memory, ids: list[str]) -> int:
    return memory.forget(*ids)


def forget_where(memory: Memory, **fields: Any) -> list[str]:
    return sorted(memory.forget_where(Filter(**fields)).ids)


def embed_pending(memory: Memory) -> int:
    return memory.embed_pending().embedded


def reindex(memory: Memory, dim: int) -> int:
    report = memory.reindex(embedder=f"hash:{dim}", batch=2)
    assert (report.refused, report.outdated, report.remaining, report.error) == (0, 0, 0, None)
    return report.embedded


def owner(memory: Memory) -> int | None:
    """Width of the embedder that the home belongs to."""
    return memory.status().home_dim


def export(memory: Memory) -> str:
    out = io.BytesIO()
    memory.export(out)
    return out.getvalue().decode("utf-8")


def restore(memory: Memory, exported: str) -> int:
    report = memory.import_(io.BytesIO(exported.encode("utf-8")))
    assert report.failed == ()
    return report.created


def compact(memory: Memory) -> None:
    memory.compact()


def backup(memory: Memory, dest: str) -> None:
    memory.backup(dest)


def verify(memory: Memory) -> list[str]:
    return [str(problem) for problem in memory.verify().problems]


def look(memory: Memory) -> dict[str, list[Any]]:
    """Every record, and the number there are by another way."""
    there = {
        one.id: [one.summary, one.key, list(one.tags), one.user_id, str(one.origin), str(one.trust)]
        for one in memory.episodes()
    }
    coverage = memory.coverage()
    assert len(memory) == coverage.total == len(there)
    assert memory.status().unreadable == 0
    for id, (_, key, _, user, *_) in there.items():
        if key is not None:
            assert [one.id for one in memory.episodes(Filter(key=key))] == [id]
        if user is not None:
            assert id in {one.id for one in memory.episodes(Filter(user_id=user))}
    return there


def covered(memory: Memory) -> list[int]:
    coverage = memory.coverage()
    return [coverage.total, coverage.vectorized, coverage.pending + coverage.stale]


def ask(memory: Memory, question: str) -> list[list[str]]:
    """The answers by words, by meaning and by both, with the bits of their scores."""
    return [
        [hit.id, hit.score.hex(), hit.relevance.hex()]
        for legs in (["lexical"], ["vector"], None)
        for hit in memory.recall(question, 100, legs=legs)
    ]


OPERATIONS = {
    call.__name__: call
    for call in (
        remember,
        remember_many,
        update,
        read,
        trust,
        forget,
        forget_where,
        embed_pending,
        reindex,
        owner,
        export,
        restore,
        compact,
        backup,
        verify,
        look,
        covered,
        ask,
    )
}


class Handle:
    """A memory opened in this process."""

    def __init__(self, home: Path, dim: int) -> None:
        self._memory = Memory.open(home, embedder=f"hash:{dim}")

    def do(self, what: str, **given: Any) -> Any:
        return OPERATIONS[what](self._memory, **given)

    def close(self) -> None:
        self._memory.close()


class Child:
    """The same memory opened in another process."""

    def __init__(self, home: Path, dim: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(home), str(dim)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self._hear() == "open"

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the other process ended with {self._process.wait(20)}"
        return json.loads(line)

    def _say(self, what: str, given: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, given]) + "\n")
        self._process.stdin.flush()

    def do(self, what: str, **given: Any) -> Any:
        self._say(what, given)
        return self._hear()

    def die_during(self, what: str, seconds: float, **given: Any) -> None:
        """Begins an operation and kills the process that much later, however far it has come."""
        self._say(what, given)
        time.sleep(seconds)
        self._process.kill()
        self._process.wait(20)
        self.close()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process.wait(20)


def main() -> None:
    """Does what each line of stdin says and answers with a line."""
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    with Memory.open(sys.argv[1], embedder=f"hash:{sys.argv[2]}") as memory:
        print('"open"', flush=True)
        for line in sys.stdin:
            what, given = json.loads(line)
            print(json.dumps(OPERATIONS[what](memory, **given)), flush=True)


if __name__ == "__main__":
    main()
