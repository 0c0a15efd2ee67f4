"""One home under several handles, in forked processes, on a disk that cannot be written."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from effort import effort
from otolith import Filter, Memory, NotFound, StoreError

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")


def state(home: Path) -> dict[str, tuple[str, int]]:
    """Content and time of change of everything in a home, the directory included."""
    return {
        str(one.relative_to(home)): (
            hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else "",
            one.stat().st_mtime_ns,
        )
        for one in (home, *home.rglob("*"))
    }


def run(code: str, *arguments: str, command: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*command, sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# -- handles and threads ----------------------------------------------------------------------------------


def test_two_handles_of_one_process_are_as_one_memory(home: Path) -> None:
    with Memory.open(home, embedder="hash:16") as one, Memory.open(home, embedder="hash:16") as other:
        for turn in range(effort(20, 200)):
            writer, reader = (one, other) if turn % 2 else (other, one)
            new = writer.remember(f"turn {turn}", key=f"k{turn % 7}")
            assert reader.get(new.id) == new
            assert new.id in {hit.id for hit in reader.recall(f"turn {turn}", 50)}
            changed = reader.update(new.id, expect=new.updated_at, summary=f"changed {turn}")
            assert writer.get(new.id) == changed
            if turn % 3 == 0:
                assert writer.forget(new.id) == 1
                with pytest.raises(NotFound):
                    reader.get(new.id)
        assert list(one.episodes()) == list(other.episodes())
        one.close()
        assert other.remember("the other goes on").id in {hit.id for hit in other.recall("goes on")}


def test_sixteen_threads_do_everything_on_one_handle(home: Path) -> None:
    """Each thread works on its own keys, so what must be there at the end is known."""
    rounds = effort(6, 60)

    def work(memory: Memory, number: int) -> list[str]:
        kept = []
        for turn in range(rounds):
            one = memory.remember(f"thread {number} turn {turn}", key=f"{number}/{turn}", user_id=str(number))
            again = memory.remember(
                f"thread {number} again {turn}", key=f"{number}/{turn}", user_id=str(number)
            )
            assert again.id == one.id
            memory.update(one.id, expect=again.updated_at, tags=[f"t{number}"])
            assert memory.count(Filter(user_id=str(number))) == len(kept) + 1
            if turn % 2:
                assert memory.forget_where(Filter(key=f"{number}/{turn}")).ids == (one.id,)
            else:
                kept.append(one.id)
            assert {
                hit.id for hit in memory.recall("thread", 1000, filter=Filter(user_id=str(number)))
            } == set(kept)
        return kept

    with Memory.open(home, embedder="hash:16") as memory:
        with ThreadPoolExecutor(16) as pool:
            kept = list(pool.map(lambda number: work(memory, number), range(16)))
        wanted = {id for ids in kept for id in ids}
        assert {one.id for one in memory.episodes()} == wanted
        assert memory.coverage().vectorized == len(wanted)
        assert all(set(one.tags) == {f"t{one.user_id}"} for one in memory.episodes())
    with Memory.open(home) as again:
        assert {hit.id for hit in again.recall("thread again", 1000)} == wanted


# -- forks ------------------------------------------------------------------------------------------------

CALLS = """
    calls = {
        "get": lambda: memory.get(known),
        "recall": lambda: memory.recall("before"),
        "remember": lambda: memory.remember("by the child"),
        "forget": lambda: memory.forget(known),
        "count": lambda: len(memory),
        "export": lambda: memory.export(os.devnull),
    }
    def refusals():
        told = []
        for name, call in calls.items():
            try:
                call()
            except StoreError as error:
                assert "fork" in str(error), error
                assert sys.argv[1] in str(error), error
                told.append(name)
        return told
"""


@forks
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "del memory; gc.collect(); os._exit(0)"])
@pytest.mark.parametrize("idle", [True, False])
def test_a_forked_child_is_refused_and_harms_nothing(home: Path, end: str, idle: bool) -> None:
    """A handle that was used after a fork destroyed the file; one that was closed there freed the locks."""
    out = run(
        f"""
        import atexit, gc, os, sys, warnings
        from otolith import Memory, StoreError
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        memory = Memory.open(sys.argv[1], embedder=None)
        known = memory.remember("before the fork").id
        {"pass" if idle else 'memory.recall("before")'}
        {textwrap.indent(CALLS, " " * 4).strip()}
        if (child := os.fork()) == 0:
            {"pass" if idle else "print(*refusals(), flush=True)"}
            {end}
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        memory.remember("after the fork")
        print(*sorted(one.summary for one in memory.episodes()), sep=", ")
        with Memory.open(sys.argv[1], embedder=None) as other:
            other.remember("by another handle")
        print(len(memory), len(memory.recall("fork handle")))
        """,
        str(home),
    )
    lines = out.splitlines()
    if not idle:
        assert lines.pop(0).split() == ["get", "recall", "remember", "forget", "count", "export"]
    assert lines == ["after the fork, before the fork", "3 3"]
    with Memory.open(home) as memory:
        assert len(memory) == 3


@forks
def test_the_lock_of_a_parent_that_dies_does_not_live_on_in_its_child(home: Path) -> None:
    """Others were locked out until a child ended that had never touched the memory."""
    out = run(
        """
        import os, sys, warnings
        from otolith import Memory
        warnings.simplefilter("ignore", DeprecationWarning)
        inner, outer = os.pipe(), os.pipe()
        if (parent := os.fork()) == 0:
            memory = Memory.open(sys.argv[1], embedder=None)
            memory.remember("before")
            if os.fork() == 0:
                os.write(outer[1], b"x")
                os.read(inner[0], 1)
                os._exit(0)
            os.read(outer[0], 1)
            os.kill(os.getpid(), 9)
        os.waitpid(parent, 0)
        with Memory.open(sys.argv[1], embedder=None, config={"lock_timeout": 2}) as memory:
            memory.remember("after")
            print(len(memory))
        os.write(inner[1], b"x")
        """,
        str(home),
    )
    assert out == "2\n"


WORKER = """
import multiprocessing, sys, warnings
from otolith import Memory, StoreError

MEMORY = None

def use(number):
    try:
        MEMORY.remember(f"inherited {number}")
    except StoreError as error:
        return f"refused: {'fork' in str(error)}"
    except AttributeError:
        return "nothing was inherited"

def use_own(number):
    with Memory.open(sys.argv[1], embedder=None) as memory:
        return memory.remember(f"own {number}").summary

if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    MEMORY = Memory.open(sys.argv[1], embedder=None)
    MEMORY.remember("parent")
    context = multiprocessing.get_context(sys.argv[2])
    with context.Pool(2) as pool:
        print(set(pool.map(use, range(4))), sorted(pool.map(use_own, range(4))))
    MEMORY.remember("parent again")
    print(len(MEMORY))
"""


@pytest.mark.parametrize(("method", "told"), [("fork", "refused: True"), ("spawn", "nothing was inherited")])
def test_workers_of_multiprocessing_open_their_own(
    home: Path, tmp_path: Path, method: str, told: str
) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"a system without {method}")
    script = tmp_path / "worker.py"
    script.write_text(WORKER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(home), method], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    own = [f"own {number}" for number in range(4)]
    assert done.stdout.splitlines() == [f"{ {told} } {own}", "6"]


# -- read only --------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux")
@pytest.mark.parametrize("ended", ["closed", "killed"])
def test_a_home_on_a_read_only_file_system_is_read_and_stays_as_it_is(home: Path, ended: str) -> None:
    """Only a test of its own name space may mount; the mount is gone with it."""
    end = "memory.close()" if ended == "closed" else "os.kill(os.getpid(), 9)"
    code = (
        "import os, sys; from otolith import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder='hash:16')\n"
        "memory.remember_many([f'note {n}' for n in range(50)])\n" + end
    )
    subprocess.run([sys.executable, "-c", code, str(home)], check=ended == "closed")
    if ended == "killed":
        with Memory.open(home):
            pass  # the last writer left the file to be looked through; only a writer may do that
    unshare = ("unshare", "--mount", "--propagation", "private")
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" "$0" && exec "$@"'
    command = (*unshare, "sh", "-c", mount, str(home))
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root")
    before = state(home)
    out = run(
        """
        import io, os, sys
        from otolith import Memory, OtolithError
        try:
            open(sys.argv[1] + "/probe", "w")
        except OSError as error:
            assert error.errno == 30, error
        else:
            raise SystemExit("the mount is writable")
        with Memory.open(sys.argv[1], read_only=True) as memory:
            one = memory.recall("note", 1)[0]
            moved = io.BytesIO()
            print(memory.get(one.id).id == one.id, memory.status().records, memory.export(moved).records)
            try:
                memory.remember("never")
            except OtolithError as error:
                print(type(error).__name__)
        try:
            with Memory.open(sys.argv[1]) as memory:
                memory.remember("never")
        except OtolithError as error:
            print(type(error).__name__, sys.argv[1] in str(error))
        """,
        str(home),
        command=command,
    )
    assert out.splitlines() == ["True 50 50", "ReadOnly", "StoreError True"]
    for words in (["list"], ["recall", "note"], ["status"], ["export"]):
        done = subprocess.run(
            [*command, sys.executable, "-m", "otolith", "--home", str(home), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
    assert state(home) == before


# -- when the file goes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["file", "home"])
def test_a_store_that_vanishes_is_an_error_of_every_call(home: Path, gone: str) -> None:
    """Writes went on into a file without a name, and were said to be safe."""
    with Memory.open(home) as memory:
        kept = memory.remember("kept")
        away = home.parent / "away"
        moved = home if gone == "home" else home / "episodes.redb"
        moved.rename(away)
        for _ in range(2):
            for call in (lambda: memory.remember("lost"), lambda: memory.forget(kept)):
                with pytest.raises(StoreError, match=r"removed|missing|there is no") as caught:
                    call()
                assert str(home) in str(caught.value)
        assert not moved.exists(), "nothing was made in its place"
        away.rename(moved)
        memory.remember("it is back")
    with Memory.open(home) as memory:
        assert sorted(one.summary for one in memory.episodes()) == ["it is back", "kept"]


def test_a_store_that_was_replaced_gets_no_write_of_the_old_handle(home: Path, tmp_path: Path) -> None:
    """Writes went into the file that was no longer there, or into a stranger's."""
    with Memory.open(tmp_path / "other") as other:
        other.remember("of the other")
    with Memory.open(home) as memory:
        memory.remember("of the first")
        (home / "episodes.redb").rename(tmp_path / "kept.redb")
        (home / "episodes.redb").write_bytes((tmp_path / "other" / "episodes.redb").read_bytes())
        for _ in range(2):
            with pytest.raises(StoreError, match="replaced"):
                memory.remember("lost")
    with Memory.open(home) as memory:
        assert [one.summary for one in memory.episodes()] == ["of the other"]
    (home / "episodes.redb").write_bytes((tmp_path / "kept.redb").read_bytes())
    with Memory.open(home) as memory:
        assert [one.summary for one in memory.episodes()] == ["of the first"]


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_limit_on_the_size_of_files_is_as_a_full_disk(home: Path) -> None:
    """After a write that failed for want of room, the next ones said they had succeeded."""
    out = run(
        """
        import resource, sys
        from otolith import Memory, StoreError
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
        with Memory.open(sys.argv[1], embedder=None) as memory:
            kept = []
            refused = 0
            while refused < 3:
                try:
                    kept.append(memory.remember(f"note {len(kept)} " + "x" * 20_000).id)
                except StoreError as error:
                    assert "episodes.redb" in str(error), error
                    refused += 1
                    assert sorted(one.id for one in memory.episodes()) == sorted(kept)
                    assert len(memory.recall("note", 1000)) == len(kept)
            print(*kept)
        """,
        str(home),
    )
    with Memory.open(home, embedder=None) as memory:
        assert sorted(one.id for one in memory.episodes()) == sorted(out.split()) != []
        memory.remember("there is room again" + "x" * 500_000)
