"""Old temporary files are removed, and a lack of file descriptors is logged once."""

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from demo.ui.web import upkeep

ROOT = Path(__file__).resolve().parents[3]


def test_old_files_go_and_young_kept_and_foreign_ones_stay(tmp_path: Path) -> None:
    def made(name: str, hours: float) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        for one in (path, path.parent) if path.parent != tmp_path else (path,):
            os.utime(one, (now - hours * 3600,) * 2)
        return path

    now = time.time()
    old, young, shown = ("a" * 64 + "/p.png", "b" * 64 + "/p.png", "c" * 64 + "/scene.png")
    gone = [made("tmpabcd1234", 1.1), made("tmp_bcd1234.mp4", 2), made(old, 24.1)]
    stay = [made("tmpabcd1235", 0.9), made(young, 23), made(shown, 99), made("letter.txt", 99), made("tmp", 99)]
    stay += [made("own/letter.txt", 99), made("d" * 63 + "/p.png", 99)]
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    foreign = outside / "letter.txt"
    foreign.write_bytes(b"x")
    os.utime(foreign, (now - 99 * 3600,) * 2)
    (tmp_path / ("e" * 64)).symlink_to(outside)
    upkeep.sweep(tmp_path, {str(tmp_path / shown)}, now)
    assert [path for path in gone if path.exists()] == []
    assert [path for path in stay if not path.exists()] == []
    upkeep.sweep(tmp_path, (), now + 23 * 3600)  # another app, which does not show that picture
    assert (tmp_path / shown).exists() and not (tmp_path / old).parent.exists()
    assert foreign.exists()
    upkeep.sweep(tmp_path / "none", (), now)


def test_the_sweep_begins_with_the_server_and_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[set[str]] = []
    monkeypatch.setattr(upkeep, "sweep", lambda folder, kept, now: swept.append(kept))
    block = SimpleNamespace(keep_in_cache={"/a/scene.png"})
    app = SimpleNamespace(get_blocks=lambda: SimpleNamespace(blocks={1: block, 2: object()}))

    async def served() -> None:
        async with asyncio.timeout(10), upkeep.upkeep(app):
            while not swept:
                await asyncio.sleep(0.01)

    asyncio.run(served())
    assert swept == [{"/a/scene.png"}]


# ---- no files left


EXHAUSTED = """
import os, resource, socket, sys, time, urllib.request
import gradio as gr
from demo.store.history import History
from demo.ui.page import Blocks, launch
with Blocks() as page:
    gr.Markdown("here")
page.stored = History()
_, address, _ = launch(page, prevent_thread_lock=True, server_name="127.0.0.1", server_port=None)
place = ("127.0.0.1", int(address.rstrip("/").rsplit(":", 1)[1]))
held = [socket.socket() for _ in range(60)]
open_now = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 10, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for one in held:
    one.connect(place)
time.sleep(1.5)
for one in held:
    one.close()
resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 80, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(urllib.request.urlopen(address, timeout=20).status)
os._exit(0)
"""


def test_a_server_without_files_left_says_so_once_and_answers_again(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", EXHAUSTED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "WORTH_COMPILING_DATA": str(tmp_path)},
    )
    assert child.stdout.split()[-1:] == ["200"], child.stderr[-2000:]
    assert len(child.stderr.splitlines()) < 5, child.stderr[:2000]
    assert re.search("Every file that this process may open is open", child.stderr)
