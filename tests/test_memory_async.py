"""`AsyncMemory` has the calls of `Memory`, and cancelling does what it says."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
from otolith import AsyncMemory, Filter, Memory, NotFound


def test_the_names_and_arguments_are_those_of_memory() -> None:
    names = [name for name in vars(Memory) if not name.startswith("_")]
    for name in names:
        ours, theirs = getattr(AsyncMemory, name), getattr(Memory, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), name
    assert [name for name in vars(AsyncMemory) if not name.startswith("_")].sort() == names.sort()


def test_a_whole_day(home: Path, tmp_path: Path) -> None:
    async def day() -> None:
        async with AsyncMemory.open(home) as memory:
            first = await memory.remember("the token expired", key="k")
            report = await memory.remember_many(f"note {n}" for n in range(300))
            assert report.written == 300
            assert (await memory.recall("token"))[0].id == first.id
            assert len((await memory.recall_many(["token", "note"], 5))[1]) == 5
            assert (await memory.get(first.id)).summary == "the token expired"
            assert await memory.find(first.id) == [first.id]
            assert len([one async for one in memory.episodes()]) == await memory.count() == len(memory) == 301
            assert (await memory.update(first, summary="renewed")).summary == "renewed"
            exported = await memory.export(tmp_path / "out.jsonl")
            assert exported.records == 301
            assert (await memory.forget_where(Filter(ids=(first.id,)))).count == 1
            with pytest.raises(NotFound):
                await memory.get(first.id)
            assert (await memory.import_(tmp_path / "out.jsonl")).created == 1
            assert await memory.forget(first.id) == 1
            assert (await memory.status()).records == (await memory.coverage()).total == 300
        again = await AsyncMemory.open(home)
        assert len(again) == 300
        await again.close()

    asyncio.run(day())


def test_the_loop_goes_on_while_calls_run(home: Path) -> None:
    async def both() -> None:
        async with AsyncMemory.open(home) as memory:
            await asyncio.gather(*(memory.remember(f"note {n}", key=str(n)) for n in range(40)))
            assert await memory.count() == 40

    asyncio.run(both())


def test_a_cancelled_write_is_safe_to_repeat(home: Path) -> None:
    async def cancel() -> None:
        async with AsyncMemory.open(home) as memory:
            for _ in range(20):
                task = asyncio.create_task(memory.remember("once only", key="once"))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await memory.remember("once only", key="once")
            assert await memory.count() == 1

    asyncio.run(cancel())
