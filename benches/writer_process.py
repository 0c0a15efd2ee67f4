"""One of several processes on one store: writes or reads, and tells how long each call took.

    python writer_process.py KIND HOME write NUMBER COUNT
    python writer_process.py KIND HOME read ID

Begins when a line comes on stdin; a writer ends after COUNT rows, a reader when stdin ends.
"""

import json
import sys
import threading
import time
from pathlib import Path

from rivals import Row, open_store


def main() -> None:
    """Works and prints one object."""
    kind, home, role, *rest = sys.argv[1:]
    store = open_store(kind, Path(home))
    print("ready", flush=True)
    sys.stdin.readline()
    took: list[float] = []
    started = time.perf_counter()
    if role == "write":
        number, count = map(int, rest)
        for n in range(count):
            begun = time.perf_counter()
            store.put(Row(f"process {number} wrote note {n}", f"p{number}-{n}", f"/p{number}", None))
            took.append(time.perf_counter() - begun)
    else:
        id = bytes.fromhex(rest[0]) if kind == "sqlite" else rest[0]
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        while not ended.is_set():
            begun = time.perf_counter()
            store.get(id)
            took.append(time.perf_counter() - begun)
            time.sleep(0.001)
    total = time.perf_counter() - started
    print(json.dumps({"calls": len(took), "longest": max(took), "total": total}), flush=True)
    store.close()


if __name__ == "__main__":
    main()
