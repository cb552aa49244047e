"""Each work-around for gradio is still needed, and still works."""

import asyncio
import contextlib
import inspect
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.components.api_component import Api
from gradio.queueing import Queue
from support.page_support import answering
from support.samples import ok_result
from support.worker_processes import wait_until

from demo.ui.page import Page
from demo.ui.web import gradio_workarounds

ROOT = Path(__file__).resolve().parents[3]


def one_endpoint(blocks: type[gr.Blocks]) -> gr.Blocks:
    def double(number: int) -> int:
        return 2 * number

    with blocks(analytics_enabled=False) as page:
        gr.api(double, api_name="double")
    return page


def test_the_queue_polls_as_seldom_as_is_set(monkeypatch) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    waits = inspect.getsource(Queue.start_processing) + inspect.getsource(Queue.start_progress_updates)
    names = set(re.findall(r"asyncio\.sleep\(self\.(\w+)\)", waits))
    page = Page(answering(ok_result()))
    seconds = {name: getattr(page._queue, name) for name in names}
    assert names and min(seconds.values()) < gradio_workarounds.POLL_SECONDS  # still needed
    assert page._queue.max_size == page._queue.ANAYLTICS_CACHE_FREQUENCY == 1  # still needed
    gradio_workarounds.set_queue(page)
    assert page._queue.max_size is None and page._queue.ANAYLTICS_CACHE_FREQUENCY > 10**9
    assert {getattr(page._queue, name) for name in names} == {gradio_workarounds.POLL_SECONDS}


class CountingPage:
    """A page whose only endpoint counts until `enough`; session "a" has called it."""

    def __init__(self, blocks: type[gr.Blocks]) -> None:
        self.enough = threading.Event()

        def count() -> Iterator[int]:
            yield 0
            while not self.enough.wait(0.1):
                yield 0

        with blocks(analytics_enabled=False) as self.page:
            gr.api(count, api_name="count")
        if blocks is gradio_workarounds.Blocks:
            gradio_workarounds.set_queue(self.page)
        _, address, _ = self.page.launch(server_port=None, prevent_thread_lock=True, quiet=True)
        self._queue = f"{address}gradio_api/queue"
        httpx.post(f"{self._queue}/join", json={"session_hash": "a", "fn_index": 0, "data": []})

    def stream(self) -> Any:
        return httpx.stream(
            "GET", f"{self._queue}/data", params={"session_hash": "a"}, timeout=8
        )  # a heartbeat comes after 15 s

    def close(self) -> None:
        self.enough.set()
        self.page.close(verbose=False)


@pytest.mark.parametrize(
    ("blocks", "is_answered"), [(gr.Blocks, False), (gradio_workarounds.Blocks, True)], ids=["still needed", "ours"]
)
def test_a_page_that_opens_a_stream_as_another_breaks_off_is_answered(
    blocks: type[gr.Blocks], is_answered: bool
) -> None:
    answered = False
    with contextlib.closing(CountingPage(blocks)) as counting:
        with counting.stream() as first:
            next(first.iter_lines())
            second = contextlib.ExitStack()
            lines = second.enter_context(counting.stream()).iter_lines()
        with second, contextlib.suppress(httpx.HTTPError):
            threading.Timer(gradio_workarounds.CLOSED_SECONDS + 1, counting.enough.set).start()
            answered = any("process_completed" in line for line in lines)
    assert answered == is_answered


def test_the_calls_of_a_page_that_is_closed_end(monkeypatch) -> None:
    monkeypatch.setattr(gradio_workarounds, "CLOSED_SECONDS", 0.2)
    with contextlib.closing(CountingPage(gradio_workarounds.Blocks)) as counting:
        queue: Any = counting.page._queue
        with counting.stream() as first:
            next(first.iter_lines())
        (call,) = queue.event_ids_to_events.values()
        wait_until(lambda: not call.alive, 10)
        assert "a" not in queue.pending_messages_per_session


def test_of_many_sessions_the_oldest_is_forgotten_and_its_next_message_harms_nothing() -> None:
    assert one_endpoint(gr.Blocks)._queue.pending_messages_per_session.max_size == 2000  # still needed
    messages = gradio_workarounds.Messages()
    for number in range(gradio_workarounds.MOST_SESSIONS + 1):
        messages[str(number)].put_nowait(number)
    assert len(messages) == gradio_workarounds.MOST_SESSIONS and "0" not in messages
    assert messages["0"].empty()


NO_CHOICE: dict[str, Any] = {"choices": ["a"], "value": "a"}


@pytest.mark.parametrize(
    ("field", "good", "wrong"),
    [
        (gr.Textbox(), ["", "a"], [1, True, [], {}]),
        (gr.Radio(**NO_CHOICE), ["a", "b"], [1, False, ["a"], {}]),
        (gr.Dropdown(allow_custom_value=True, **NO_CHOICE), ["b", None], [1.5, ["a"], {}]),
        (gr.Dropdown(multiselect=True, **NO_CHOICE), [["a"], []], ["a", [["a"]], [1]]),
        (gr.Checkbox(), [True], [0, "true", []]),
        (gr.Number(), [1, 1.5, None], [True, "1", [1]]),
        (gr.Image(), [{"path": "a"}, None], ["a", [], 1, True]),
        (gr.Dataset(components=["textbox"], samples=[["a"]]), [0], [None, "0", True, 0.5]),
        (Api(None, {"type": "str"}), [1, True, {}, None], []),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, gr.blocks.Block) else "",
)
def test_a_field_holds_only_what_a_browser_sends_for_it(field: Any, good: list[Any], wrong: list[Any]) -> None:
    for value in good:
        assert gradio_workarounds.field_value(field, value) == value
    for value in wrong:
        with pytest.raises(gr.Error, match="A value must be of the JSON type"):
            gradio_workarounds.field_value(field, value)


def test_old_files_go_and_all_others_stay(tmp_path) -> None:
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


def test_the_sweep_of_uploads_begins_with_the_server(monkeypatch) -> None:
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
print(urllib.request.urlopen(address, timeout=8)  # less than a heartbeat.status)
os._exit(0)
"""


def test_a_server_without_files_left_answers_again(tmp_path) -> None:
    environment = {**os.environ, "WORTH_COMPILING_DATA": str(tmp_path)}
    program = [sys.executable, "-c", EXHAUSTED]
    child = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90)
    assert child.stdout.split()[-1:] == ["200"], child.stderr[-2000:]
    assert len(child.stderr.splitlines()) < 5, child.stderr[:2000]
    assert re.search("Every file that this process may open is open", child.stderr)
