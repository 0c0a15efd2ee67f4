"""The package as a whole: its names, what importing it costs, its errors."""

from __future__ import annotations

import copy
import doctest
import os
import pickle
import subprocess
import sys

import otolith
import pytest
from cli_process import cpu_seconds
from otolith import exceptions

HEAVY = ("numpy", "httpx", "click", "rich", "asyncio", "mcp", "tomlkit", "platformdirs", "dataclasses")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_public_names_are_sorted_and_there() -> None:
    assert otolith.__all__ == sorted(otolith.__all__)
    for name in otolith.__all__:
        assert getattr(otolith, name) is not None
        assert name in dir(otolith)


def test_examples_in_docstrings_run() -> None:
    import otolith.memory

    results = doctest.testmod(otolith.memory)
    assert results.attempted > 0
    assert results.failed == 0


def test_exception_names_are_sorted_and_public() -> None:
    assert exceptions.__all__ == sorted(exceptions.__all__)
    assert set(exceptions.__all__) <= set(otolith.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        otolith.nonsense  # noqa: B018


def test_version_is_that_of_the_engine() -> None:
    assert otolith.__version__.count(".") == 2


def test_import_loads_nothing_heavy() -> None:
    loaded = run(f"import sys, otolith; print([n for n in {HEAVY!r} if n in sys.modules])")
    assert loaded == "[]"


def test_memory_without_embedder_needs_no_numpy(tmp_path: object) -> None:
    code = (
        "import sys\nfrom otolith import Memory\n"
        f"with Memory.open({str(tmp_path)!r} + '/home') as m:\n"
        "    m.remember('a note on retries')\n    assert len(m.recall('retries')) == 1\n"
        "print([n for n in ('numpy', 'httpx', 'click', 'rich', 'asyncio') if n in sys.modules])"
    )
    assert run(code) == "[]"


def test_import_costs_little() -> None:
    def seconds(code: str) -> float:
        return cpu_seconds(["-c", code], os.environ, runs=9)

    seconds("import otolith")
    bare = seconds("pass")
    # Measured: nothing for otolith, a third of click for the name rich alone, four times click for httpx.
    assert seconds("import otolith") - bare <= min(0.015, 0.25 * (seconds("import click") - bare))


@pytest.mark.parametrize("name", exceptions.__all__)
def test_errors_carry_attributes_and_pickle(name: str) -> None:
    kind = getattr(exceptions, name)
    error = kind("what, why, next", path="/x", holder_pid=7)
    for again in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == "what, why, next"
        assert (again.path, again.holder_pid) == ("/x", 7)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = [
        line.split("── ")[1].split() for line in (exceptions.__doc__ or "").splitlines() if "── " in line
    ]
    for name, *_ in drawn:
        assert issubclass(getattr(exceptions, name), exceptions.OtolithError)
    assert {name for name, *_ in drawn} == set(exceptions.__all__) - {"OtolithError"}
    assert issubclass(exceptions.DimensionMismatch, exceptions.InvalidInput)
    assert issubclass(exceptions.InvalidInput, ValueError)
    assert issubclass(exceptions.StoreLocked, exceptions.StoreError)
    assert issubclass(exceptions.FormatTooNew, exceptions.StoreError)
