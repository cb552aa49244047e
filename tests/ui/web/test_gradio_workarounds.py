"""Each work-around for gradio is still needed, and still works."""

import asyncio
import inspect
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest
from gradio.queueing import Queue
from page_support import answering
from samples import ok_result

from demo.ui.page import Page
from demo.ui.web import gradio_workarounds

ROOT = Path(__file__).resolve().parents[3]


def one_endpoint(blocks: type[gr.Blocks]) -> gr.Blocks:
    def double(number: int) -> int:
        return 2 * number

    with blocks(analytics_enabled=False) as page:
        gr.api(double, api_name="double")
    return page


def test_the_queue_polls_as_seldom_as_is_set_and_lets_events_wait_on_zero_gpu(monkeypatch) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    waits = inspect.getsource(Queue.start_processing) + inspect.getsource(Queue.start_progress_updates)
    names = set(re.findall(r"asyncio\.sleep\(self\.(\w+)\)", waits))
    page = Page(answering(ok_result()))
    seconds = {name: getattr(page._queue, name) for name in names}
    assert names and min(seconds.values()) < gradio_workarounds.POLL_SECONDS  # still needed
    assert page._queue.max_size == 1  # still needed
    gradio_workarounds.set_queue(page)
    assert page._queue.max_size is None
    assert {getattr(page._queue, name) for name in names} == {gradio_workarounds.POLL_SECONDS}


@pytest.mark.parametrize(("blocks", "kind"), [(gr.Blocks, ValueError), (gradio_workarounds.Blocks, gr.Error)])
def test_a_call_with_too_few_values_is_a_sentence_and_in_gradio_a_traceback(
    blocks: type[gr.Blocks], kind: type[Exception]
) -> None:
    page = one_endpoint(blocks)
    (call,) = page.fns.values()
    with pytest.raises(Exception) as raised:
        asyncio.run(page.preprocess_data(call, [], None))
    assert type(raised.value) is kind


def test_gradio_still_takes_the_language_from_the_browser() -> None:
    front_end = Path(gr.__file__).parent / "templates" / "frontend"
    scripts = (front_end / "assets").glob("*.js")
    assert any("navigator.language" in file.read_text(encoding="utf-8") for file in scripts)


def test_gradios_mcp_server_still_asks_for_addresses_and_an_upload_tool() -> None:
    mcp = pytest.importorskip("gradio.mcp", reason="gradio[mcp] is not installed")
    source = inspect.getsource(mcp.GradioMCPServer if "web.gradio" not in mcp.GradioMCPServer.__module__ else mcp)
    assert "_file_data_tool_description" in source and "http or https url" in inspect.getsource(mcp)


def test_old_files_go_and_young_kept_and_foreign_ones_stay(tmp_path) -> None:
    now, folder = time.time(), tmp_path / "uploads"
    folder.mkdir()

    def made(name: str, hours: float) -> Path:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        for one in {path, path.parent} - {folder}:
            os.utime(one, (now - hours * 3600,) * 2)
        return path

    old, young, shown = ("a" * 64 + "/p.png", "b" * 64 + "/p.png", "c" * 64 + "/scene.png")
    gone = [made("tmpabcd1234", 1.1), made("tmp_bcd1234.mp4", 2), made(old, 24.1)]
    stay = [made("tmpabcd1235", 0.9), made(young, 23), made(shown, 99), made("letter.txt", 99), made("tmp", 99)]
    stay += [made("own/letter.txt", 99), made("d" * 63 + "/p.png", 99), foreign := made("../outside/letter.txt", 99)]
    (folder / ("e" * 64)).symlink_to(tmp_path / "outside")
    gradio_workarounds.sweep(folder, {str(folder / shown)}, now)
    assert [path for path in gone if path.exists()] == []
    assert [path for path in stay if not path.exists()] == []
    gradio_workarounds.sweep(folder, (), now + 23 * 3600)  # another app, which does not show that picture
    assert (folder / shown).exists() and not (folder / old).parent.exists()
    assert foreign.exists()
    gradio_workarounds.sweep(folder / "none", (), now)


def test_the_sweep_begins_with_the_server_and_ends_with_it(monkeypatch) -> None:
    swept: list[set[str]] = []
    monkeypatch.setattr(gradio_workarounds, "sweep", lambda folder, kept, now: swept.append(kept))
    block = SimpleNamespace(keep_in_cache={"/a/scene.png"})
    app = SimpleNamespace(get_blocks=lambda: SimpleNamespace(blocks={1: block, 2: object()}))

    async def served() -> None:
        async with asyncio.timeout(10), gradio_workarounds.upkeep(app):
            while not swept:
                await asyncio.sleep(0.01)

    asyncio.run(served())
    assert swept == [{"/a/scene.png"}]


EXHAUSTED = """
import os, resource, socket, sys, time, urllib.request
import gradio as gr
from demo.store.history import History
from demo.ui.page import launch
from demo.ui.web.gradio_workarounds import Blocks
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


def test_a_server_without_files_left_says_so_once_and_answers_again(tmp_path) -> None:
    environment = {**os.environ, "WORTH_COMPILING_DATA": str(tmp_path)}
    program = [sys.executable, "-c", EXHAUSTED]
    child = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90)
    assert child.stdout.split()[-1:] == ["200"], child.stderr[-2000:]
    assert len(child.stderr.splitlines()) < 5, child.stderr[:2000]
    assert re.search("Every file that this process may open is open", child.stderr)
