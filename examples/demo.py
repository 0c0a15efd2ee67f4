"""A coding diary is remembered, asked and answered: what `make demo` shows.

Everything but the last figure goes through the command line, as a person would type it.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile

from otolith import Memory
from otolith.config import resolve
from otolith.evaluation import SHIPPED

DATA = SHIPPED["coding-agent-life"].folder
ASKED = ("q-001", "q-006", "q-014")


def otolith(*arguments: str, needed: bool = True) -> bool:
    """Runs the command line tool, showing what is typed, and returns whether it went well.

    Its own message says what went wrong; without a command that is needed the demo ends there.
    """
    print(f"\n$ otolith {shlex.join(arguments)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "otolith", *arguments], check=False).returncode
    if code and needed:
        sys.exit(code)
    return code == 0


def recall_at_5(home: str, questions: list[dict[str, object]]) -> float:
    """Share of a question's sessions among the first five answers, averaged: words only."""
    total = 0.0
    with Memory.open(home, embedder="none", read_only=True) as memory:
        for question in questions:
            report = memory.recall(str(question["question"]), k=5)
            found = {hit.episode.session_id for hit in report}
            gold = question["goldSessionIds"]
            assert isinstance(gold, list)
            total += len(found.intersection(gold)) / len(gold)
    return total / len(questions)


def main() -> None:
    """Imports the diary, asks it, and measures."""
    questions = json.loads((DATA / "queries.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="otolith-demo-") as home:
        print(f"A memory in a temporary place: {home}")
        otolith("init", home)
        print(f"\n$ export OTOLITH_HOME={home}")
        os.environ["OTOLITH_HOME"] = home
        fields = ["--map", "summary=content", "--map", "occurred_at=timestamp", "--map", "session_id=id"]
        otolith("import", str(DATA / "sessions.jsonl"), "--format", "jsonl", *fields)
        asked = [str(one["question"]) for one in questions if one["id"] in ASKED]
        for place, question in enumerate(asked):
            otolith("recall", question, "-k", "1" if place else "3", "--explain")
        embedder = resolve().get("embedder")
        if embedder in ("none", "auto"):
            print(
                "\nNo embedder is configured, so answers come from words alone. Any server that speaks"
                "\nthe OpenAI embeddings protocol makes them hybrid, for instance:"
                "\n  export OTOLITH_EMBEDDER=openai:nomic-embed-text OTOLITH_EMBEDDER_URL=http://localhost:11434/v1"
                "\nthen `otolith embed` once, and every recall searches words and meaning together."
            )
        else:
            print(f"\nThe same with {embedder}:")
            if otolith("embed", needed=False):
                otolith("recall", "an endpoint that forgot to check who was calling", "-k", "3", "--explain")
            else:
                print("\nThe embedder cannot be used now, so this goes on with words alone.")
        otolith("status")
        score = recall_at_5(home, questions)
        print(f"\nR@5 over {len(questions)} questions, words only: {score:.3f}")


if __name__ == "__main__":
    main()
