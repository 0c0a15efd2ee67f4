"""Several real processes on one memory."""

import subprocess
import sys
import textwrap
from pathlib import Path

import otolith

# Answers each line of stdin: `+ text` remembers, `? text` recalls, `- id` forgets.
PEER = textwrap.dedent(
    """
    import sys
    import otolith

    with otolith.Memory.open(sys.argv[1], embedder="none") as memory:
        for line in sys.stdin:
            what, _, text = line.rstrip().partition(" ")
            if what == "+":
                print(memory.remember(text).id, flush=True)
            elif what == "?":
                print(" ".join(hit.id for hit in memory.recall(text, k=1000)), flush=True)
            else:
                print(memory.forget(text), flush=True)
    """
)


class Peer:
    """A process with the memory open."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, line: str) -> str:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        return stdout.readline().strip()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self.process.stdout.close()


def test_two_processes_write_in_turn_and_both_see_all(home: Path) -> None:
    peers = [Peer(home), Peer(home)]
    try:
        ids: set[str] = set()
        for turn in range(20):
            writer, reader = peers[turn % 2], peers[1 - turn % 2]
            ids.add(writer.ask(f"+ 第{turn}条 deploy note number {turn}"))
            assert set(reader.ask("? deploy note").split()) == ids
            assert set(writer.ask("? deploy note").split()) == ids
        gone = sorted(ids)[:5]
        for one in gone:
            assert peers[0].ask(f"- {one}") == "1"
        for peer in peers:
            assert set(peer.ask("? deploy note").split()) == ids - set(gone)
    finally:
        for peer in peers:
            peer.close()


def test_eight_processes_at_once_lose_nothing(home: Path) -> None:
    peers = [Peer(home) for _ in range(8)]
    try:
        for peer in peers:
            assert peer.process.stdin is not None
            peer.process.stdin.write("".join(f"+ note {n}\n" for n in range(25)))
            peer.process.stdin.flush()
        written = set()
        for peer in peers:
            assert peer.process.stdout is not None
            written |= {peer.process.stdout.readline().strip() for _ in range(25)}
    finally:
        for peer in peers:
            peer.close()
    assert len(written) == 200
    with otolith.Memory.open(home, embedder="none") as memory:
        assert {episode.id for episode in memory.episodes()} == written
        assert {hit.id for hit in memory.recall("note", k=1000)} == written
