"""The process that looks at the file may be killed, left alone, or never start: none of it is damage."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import otolith
import pytest
from otolith import maintenance
from otolith.maintenance import asking
from test_verify import STARTED, damage, fill, interpreter, store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals, and scripts for the interpreter")


def damaged_home(home: Path) -> bytes:
    """A home with a record that cannot be brought back."""
    fill(home, 50)
    at = store(home).read_bytes().index(b'"summary":"note 11 ')
    return damage(home, at + 11, 6)


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT", "HUP"])
@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("first", [STARTED, "true"])
def test_a_signal_from_outside_is_no_damage(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, repair: bool, first: str
) -> None:
    fill(home, 5)
    before = store(home).read_bytes()
    interpreter(tmp_path, monkeypatch, f"{first}; kill -{name} $$; exec sleep 5", real=False)
    with pytest.raises(
        otolith.StoreError, match=f"ended by SIG{name}.*says nothing of the file.*Nothing was"
    ):
        maintenance.verify(home, repair=repair)
    assert store(home).read_bytes() == before
    assert not list(home.glob("*damaged*"))


@pytest.mark.parametrize("name", ["KILL", "SEGV"])
def test_what_a_repair_did_before_it_was_ended_is_told(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A second repair would find the new file whole and say that nothing was lost."""
    damaged = damaged_home(home)
    real = sys.executable
    interpreter(
        tmp_path,
        monkeypatch,
        f"{STARTED}; mkfifo {tmp_path}/held; sleep 5 > {tmp_path}/held & "
        f'{sys.executable} "$@" < {tmp_path}/held > {tmp_path}/said 2>&1; kill $!; kill -{name} $$',
        real=False,
    )
    with pytest.raises(otolith.StoreError, match=f"ended by SIG{name}") as caught:
        maintenance.verify(home, repair=True)
    (kept,) = home.glob("episodes.redb.damaged-*")
    (lost,) = (home / "lost+found").iterdir()
    assert kept.read_bytes() == damaged
    assert str(kept) in str(caught.value)
    assert str(lost) in str(caught.value)
    assert "repaired file is in its place" in str(caught.value)
    monkeypatch.setattr(sys, "executable", real)
    assert maintenance.verify(home).ok


def test_what_a_repair_left_before_it_was_ended_is_told(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, 5)
    copy = home / "episodes.redb.damaged-2026-01-01-000000"
    interpreter(tmp_path, monkeypatch, f"{STARTED}; touch {copy}; kill -KILL $$", real=False)
    with pytest.raises(otolith.StoreError, match=f"The store is as it was; {copy} came from this repair"):
        maintenance.verify(home, repair=True)


def test_an_error_and_an_interrupt_tell_what_was_done_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, 5)
    copy = home / "episodes.redb.damaged-2026-01-01-000000"
    error = '{"error": {"kind": "StoreError", "message": "disk", "details": {"path": "p"}}}'
    interpreter(tmp_path, monkeypatch, f"{STARTED}; touch {copy}; echo '{error}'", real=False)
    with pytest.raises(otolith.StoreError, match=f"disk. The store is as it was; {copy}"):
        maintenance.verify(home, repair=True)
    copy.unlink()
    progress = '{"progress": [1, 2]}'
    interpreter(
        tmp_path, monkeypatch, f"{STARTED}; touch {copy}; echo '{progress}'; exec sleep 5", real=False
    )

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        maintenance.verify(home, repair=True, progress=stop)
    assert str(copy) in "".join(caught.value.__notes__)


def test_memory_that_was_refused_is_no_damage(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, 5)
    said = "echo 'memory allocation of {} bytes failed' >&2; kill -ABRT $$"
    interpreter(tmp_path, monkeypatch, f"{STARTED}; {said.format(1 << 20)}", real=False)
    with pytest.raises(otolith.StoreError, match="memory allocation of 1048576 bytes failed"):
        maintenance.verify(home, repair=True)
    interpreter(tmp_path, monkeypatch, f"{STARTED}; {said.format(1 << 50)}", real=False)
    assert not maintenance.verify(home).ok


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 0", "exit code 0"),
        ("echo no such library >&2; exit 127", "exit code 127.*: no such library"),
        ("echo '{}'; echo 5; echo '[1]'; exit 3", r"exit code 3\): {} 5 \[1\]"),
        ("kill -SEGV $$", "SIGSEGV"),
    ],
)
def test_a_process_that_does_not_start_is_no_damage(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str
) -> None:
    fill(home, 5)
    interpreter(tmp_path, monkeypatch, script, real=False)
    for repair in (False, True):
        with pytest.raises(otolith.StoreError, match=f"did not start: .*{told}.*otolith verify") as caught:
            maintenance.verify(home, repair=repair)
        assert caught.value.path == str(home)
    assert not list(home.glob("*damaged*"))


def test_a_process_that_says_nothing_is_stopped(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, 5)
    monkeypatch.setattr(asking, "_LONGEST_START", 0.3)
    interpreter(tmp_path, monkeypatch, "while echo y; do :; done", real=False)
    with pytest.raises(otolith.StoreError, match="said nothing for"):
        maintenance.verify(home)


def test_what_is_printed_before_it_starts_is_passed_over(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, 5)
    interpreter(tmp_path, monkeypatch, """echo 5; echo '[1]'; echo '{}'; echo '{"a": 1}'; echo hello""")
    assert maintenance.verify(home).records == 5


def test_an_interpreter_that_is_gone_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, 5)
    monkeypatch.setattr(sys, "executable", str(home / "gone"))
    with pytest.raises(otolith.StoreError, match=r"did not start: .*gone cannot be run") as caught:
        maintenance.verify(home)
    assert caught.value.errno == errno.ENOENT
    for nothing in (None, ""):
        monkeypatch.setattr(sys, "executable", nothing)
        with pytest.raises(otolith.StoreError, match=r"sys\.executable.*run `otolith verify`"):
            maintenance.verify(home)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM])
def test_a_system_that_refuses_a_process_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    fill(home, 5)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(otolith.StoreError, match=r"cannot be started: .*\(`ulimit -[unv]`\)") as caught:
        maintenance.verify(home)
    assert caught.value.errno == number


def test_a_thread_that_cannot_start_leaves_no_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, 5)
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen
    start = threading.Thread.start

    def keep(*args: object, **how: object) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **how))  # type: ignore[call-overload]
        return started[-1]

    for refused in (0, 1):
        seen: list[threading.Thread] = []

        def begin(thread: threading.Thread, seen: list[threading.Thread] = seen, at: int = refused) -> None:
            if thread.name == "otolith-verify":
                seen.append(thread)
                if len(seen) == at + 1:
                    raise RuntimeError("can't start new thread")
            start(thread)

        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", keep)
            patched.setattr(threading.Thread, "start", begin)
            with pytest.raises(otolith.StoreError, match="can't start new thread; this user may start no"):
                maintenance.verify(home)
        assert started.pop().returncode is not None


def test_the_child_imports_what_its_parent_did(home: Path, tmp_path: Path) -> None:
    """Not from PYTHONPATH, which an isolated parent ignores, nor from the directory of scripts."""
    fill(home, 5)
    bad = tmp_path / "bad"
    bad.mkdir()
    for name in ("json", "queue", "otolith", "sitecustomize"):
        (bad / f"{name}.py").write_text("raise SystemExit(3)\n")
    code = f"from otolith import maintenance; print(maintenance.verify({str(home)!r}).records)"
    for flags in (["-I"], ["-P"]):
        environment = {**os.environ, "PYTHONPATH": str(bad)} if flags == ["-I"] else dict(os.environ)
        command = [sys.executable, *flags, "-c", code]
        done = subprocess.run(command, env=environment, cwd=bad, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == ("5\n", 0), done.stderr


def test_a_package_in_a_directory_of_its_own_is_found(home: Path, tmp_path: Path) -> None:
    """And a module that lies beside it does not take the place of one of the standard library."""
    fill(home, 5)
    place = tmp_path / "vendored"
    place.mkdir()
    (place / "otolith").symlink_to(Path(otolith.__file__).parent)
    (place / "signal.py").write_text("raise SystemExit(3)\n")
    code = f"""
import sys
sys.path.append({str(place)!r})
sys.modules.pop("otolith", None)
sys.path[:] = [one for one in sys.path if one != {str(Path(otolith.__file__).parents[1])!r}]
import otolith
from otolith import maintenance
assert otolith.__file__.startswith({str(place)!r}), otolith.__file__
print(maintenance.verify({str(home)!r}).records)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("5\n", 0), done.stderr


@pytest.mark.parametrize("given", [True, "soon", -1, float("nan"), float("inf"), 1e300, object()])
def test_a_lock_timeout_that_cannot_be_is_refused(home: Path, given: object) -> None:
    with pytest.raises(otolith.InvalidInput, match="lock_timeout") as caught:
        maintenance.verify(home, lock_timeout=given)  # type: ignore[arg-type]
    assert caught.value.field == "lock_timeout"


def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def state(process: int) -> str:
    """One letter; empty if it is gone or only waited for."""
    try:
        letter = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if letter == "Z" else letter


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are found in /proc")
@pytest.mark.parametrize("forked", [False, True])
def test_the_child_ends_with_its_parent(locked_home: tuple[Path, int], forked: bool) -> None:
    """One that nobody waited for any more went on for half a minute, and took the write lock."""
    home, _ = locked_home
    code = f"""
import os, sys, time
from otolith import maintenance
from otolith.maintenance import asking

if {forked}:
    await_start = asking._await_start
    def fork(*args):
        await_start(*args)
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            time.sleep(60)  # keeps the stdin of the child open
    asking._await_start = fork
maintenance.verify({str(home)!r}, repair=True, lock_timeout=60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    assert parent.stdout is not None
    try:
        other = int(parent.stdout.readline()) if forked else 0
        children: list[int] = []

        def is_at_work() -> bool:
            """Whether it has its store open, the lock of which it waits for."""
            children[:] = [int(one) for one in listed.read_text().split() if int(one) != other]
            return any(
                os.path.realpath(descriptor) == os.path.realpath(store(home))
                for one in children
                for descriptor in Path(f"/proc/{one}/fd").glob("*")
            )

        assert until(is_at_work, 20)
        time.sleep(0.3)
        assert state(children[0])
        parent.kill()
        parent.wait()
        assert until(lambda: not state(children[0]), 6), "it waits for the write lock for nobody"
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        if forked and other:
            os.kill(other, signal.SIGKILL)
