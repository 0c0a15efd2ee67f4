"""`durability = batched`: what is acknowledged before its commit, and who hears of it when that fails."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import otolith
import pytest
from otolith import AsyncMemory, Memory

BATCHED = {"durability": "batched", "embedder": "none"}


def script(text: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text), str(home)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def on_disk(home: Path) -> int:
    """What another handle sees, which flushes nothing of ours."""
    with Memory.open(home, read_only=True, embedder=None) as other:
        return len(other)


def test_own_reads_see_what_was_written_and_flush_puts_it_on_disk(home: Path) -> None:
    with Memory.open(home, config=BATCHED) as memory:
        for n in range(50):
            episode = memory.remember(f"number {n}")
            if n % 10 == 0:
                assert memory.get(episode.id) == episode
        assert memory.recall("number 49")[0].id == episode.id
        memory.remember("the last one")
        memory.flush()
        assert on_disk(home) == 51
        memory.remember("and one more")
    assert on_disk(home) == 52


def test_flush_is_there_for_every_memory(home: Path) -> None:
    async def main() -> None:
        async with AsyncMemory.open(home, config=BATCHED) as memory:
            await memory.remember("from a program with an event loop")
            await memory.flush()
            assert on_disk(home) == 1

    asyncio.run(main())
    with Memory.open(home) as memory:
        memory.flush()
    with pytest.raises(otolith.StoreError, match="closed"):
        memory.flush()


def test_a_program_that_ends_without_closing_loses_nothing(home: Path) -> None:
    done = script(
        """
        import sys
        import otolith

        memory = otolith.Memory.open(sys.argv[1], config={"durability": "batched", "embedder": "none"})
        for n in range(20):
            memory.remember(f"number {n}")
        """,
        home,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert on_disk(home) == 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_ends_disturbs_nothing(home: Path) -> None:
    done = script(
        """
        import os
        import sys
        import warnings
        import otolith

        warnings.simplefilter("ignore", DeprecationWarning)
        memory = otolith.Memory.open(sys.argv[1], config={"durability": "batched", "embedder": "none"})
        memory.remember("before")
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        memory.remember("after")
        """,
        home,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert on_disk(home) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a file")
@pytest.mark.parametrize("call", ["flush()", "count()", "close()", "remember('refused with the news')"])
def test_a_commit_that_fails_after_the_answer_is_told_once(home: Path, call: str) -> None:
    done = script(
        f"""
        import resource
        import sys
        import time
        import otolith

        memory = otolith.Memory.open(sys.argv[1], config={{"durability": "batched", "embedder": "none"}})
        memory.remember("kept")
        # Room within the file, so that only the commit writes beyond the limit.
        memory.forget(memory.remember("room", body="y" * 300_000))
        memory.remember("kept as well")
        memory.flush()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        memory.remember("acknowledged")
        time.sleep(0.2)
        try:
            memory.{call}
        except otolith.StoreError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        memory.close()
        """,
        home,
    )
    assert done.returncode == 0, done.stderr
    assert "1 write that had been acknowledged could not be committed" in done.stdout
    assert "no space" in done.stdout
    with Memory.open(home, embedder=None) as memory:
        assert [episode.summary for episode in memory.episodes()] == ["kept as well", "kept"]
        memory.remember("it goes on")


def test_the_words_are_checked(home: Path) -> None:
    with pytest.raises(otolith.InvalidInput, match="full, batched") as caught:
        Memory.open(home, config={"durability": "often"})
    assert caught.value.field == "durability"
    assert not home.exists()
