"""The compiled module as a whole: panics, threads, signals, what importing it costs, its stub."""

from __future__ import annotations

import ast
import inspect
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from otolith import (
    HybridIndex,
    InternalError,
    OtolithError,
    StoreLocked,
    _core,  # noqa: TID251
)

Engine = _core.Engine


def test_a_panic_is_an_internal_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InternalError, match="out of cheese") as caught:
        _core._panic_for_tests("out of cheese")  # type: ignore[attr-defined]
    assert isinstance(caught.value, OtolithError)
    assert "lib.rs:" in str(caught.value)
    assert capfd.readouterr().err == ""


def test_sixteen_threads_write_and_ask(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "home")
    index = HybridIndex()
    failures: list[BaseException] = []
    start = threading.Barrier(16)

    def work(thread: int) -> None:
        try:
            start.wait()
            for n in range(8):
                word = f"w{thread}x{n}"
                episode = engine.put({"summary": f"note {word}", "key": word}).episode
                assert engine.recall(word)[0].episode == episode
                index.insert(word, f"note {word}", [float(thread), n + 1.0])
                assert index.search(word, k=1)[0].id == word
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert engine.count() == len(index) == 128
    assert len(engine.recall("note", 1000)) == 128


def test_a_slow_call_lets_other_threads_run() -> None:
    index = HybridIndex()
    texts = [f"word{n} common text number {n % 97}" for n in range(20_000)]
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    started = time.perf_counter()
    index.insert_many([str(n) for n in range(len(texts))], texts)
    ended = time.perf_counter()
    done.set()
    thread.join()
    during = [at for at in ticks if started < at < ended]
    assert len(during) > 5, f"{len(during)} ticks in {ended - started:.3f} s"


WAITER = """
import os, signal, sys, time
from otolith import _core
home, timeout, handler = sys.argv[1:]
engine = _core.Engine.open(home, lock_timeout=float(timeout))
if handler == "own":
    def raise_timeout(*_):
        raise TimeoutError("from the handler")
    signal.signal(signal.SIGINT, raise_timeout)
else:
    signal.signal(signal.SIGINT, signal.default_int_handler)
print("waiting", flush=True)
started = time.monotonic()
try:
    engine.put({"summary": "never"})
except BaseException as error:
    print(type(error).__name__, getattr(error, "holder_pid", None), time.monotonic() - started, flush=True)
print(engine.count() >= 1, flush=True)
os._exit(0)  # closing gives the writer thread, which is blocked in the kernel, five seconds
"""


def start_waiter(home: Path, timeout: float, handler: str = "default") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WAITER, str(home), str(timeout), handler]
    waiter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "waiting\n"
    return waiter


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("handler", "raised"), [("default", "KeyboardInterrupt"), ("own", "TimeoutError")])
def test_ctrl_c_ends_the_wait_for_the_lock(locked_home: tuple[Path, int], handler: str, raised: str) -> None:
    with start_waiter(locked_home[0], 60, handler) as waiter:
        time.sleep(0.5)
        sent = time.monotonic()
        waiter.send_signal(signal.SIGINT)
        assert waiter.stdout is not None
        name, _, waited = waiter.stdout.readline().split()
        assert name == raised
        assert time.monotonic() - sent < 2
        assert float(waited) < 10
        assert waiter.stdout.readline() == "True\n", "reading goes on"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_wait_for_the_lock_ends_and_names_the_holder(locked_home: tuple[Path, int]) -> None:
    home, pid = locked_home
    with start_waiter(home, 0.5) as waiter:
        assert waiter.stdout is not None
        name, holder, waited = waiter.stdout.readline().split()
        assert (name, holder) == (StoreLocked.__name__, str(pid))
        assert 0.5 <= float(waited) < 5
        assert waiter.stdout.readline() == "True\n", "reading goes on"


# -- the module ---------------------------------------------------------------------------------------------


def test_the_module_alone_imports_little() -> None:
    code = "import sys; before = {*sys.modules}; import otolith._core; print(*{*sys.modules} - before)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert set(loaded) <= {"otolith", "otolith._core", "__future__"}


def test_lists_as_vectors_need_no_numpy() -> None:
    code = textwrap.dedent("""
        import array, sys
        from otolith import _core
        engine = _core.Engine.open(None)
        engine.put({"summary": "x"}, vector=[1.0, 2.0])
        engine.recall("x", vector=array.array("f", [1, 2]))
        print("numpy" in sys.modules)
    """)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_the_stub_has_the_docstrings_of_the_module() -> None:
    stub = Path(_core.__file__).with_name("_core.pyi").read_text()
    classes = {node.name: node for node in ast.parse(stub).body if isinstance(node, ast.ClassDef)}
    for name in _core.__all__:
        compiled = getattr(_core, name)
        if not isinstance(compiled, type):
            continue
        assert ast.get_docstring(classes[name]) == inspect.cleandoc(compiled.__doc__ or ""), name
        methods = {node.name: node for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        for method, node in methods.items():
            if not method.startswith("__"):
                text = inspect.cleandoc(getattr(compiled, method).__doc__ or "")
                assert text, f"{name}.{method} has no docstring"
                assert ast.get_docstring(node) == text, f"{name}.{method}"


def test_the_file_system_of_a_path_is_told(tmp_path: Path) -> None:
    here = _core.file_system(tmp_path)
    assert set(here) == {"name", "network"}
    assert here["name"]
    assert here["network"] is False
    assert _core.file_system(tmp_path / "not" / "there") == here, "of the directory it would be made in"
