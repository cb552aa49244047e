"""Each work-around for gradio is still needed, and still works."""

import asyncio
import inspect
import re
from pathlib import Path

import gradio as gr
import pytest
from gradio.queueing import Queue
from page_support import answering
from samples import ok_result

from demo.ui.page import build
from demo.ui.web import gradio_workarounds


def one_endpoint(blocks: type[gr.Blocks]) -> gr.Blocks:
    def double(number: int) -> int:
        return 2 * number

    with blocks(analytics_enabled=False) as page:
        gr.api(double, api_name="double")
    return page


def test_the_queue_polls_as_seldom_as_is_set() -> None:
    waits = inspect.getsource(Queue.start_processing) + inspect.getsource(Queue.start_progress_updates)
    names = set(re.findall(r"asyncio\.sleep\(self\.(\w+)\)", waits))
    page = build(answering(ok_result()))
    seconds = {name: getattr(page._queue, name) for name in names}
    assert names and min(seconds.values()) < gradio_workarounds.POLL_SECONDS  # still needed
    gradio_workarounds.set_queue(page)
    assert {getattr(page._queue, name) for name in names} == {gradio_workarounds.POLL_SECONDS}


def test_on_zero_gpu_events_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    page = build(answering(ok_result()))
    assert page._queue.max_size == 1  # still needed
    gradio_workarounds.set_queue(page)
    assert page._queue.max_size is None


@pytest.mark.parametrize(("blocks", "kind"), [(gr.Blocks, ValueError), (gradio_workarounds.Blocks, gr.Error)])
def test_a_call_with_too_few_values_is_a_sentence_and_in_gradio_a_traceback(
    blocks: type[gr.Blocks], kind: type[Exception]
) -> None:
    page = one_endpoint(blocks)
    (call,) = page.fns.values()
    with pytest.raises(Exception) as raised:
        asyncio.run(page.preprocess_data(call, [], None))
    assert type(raised.value) is kind


def test_gradios_template_still_has_its_own_tags_for_previews() -> None:
    template = Path(gr.__file__).parent / "templates" / "frontend" / "index.html"
    assert gradio_workarounds.PREVIEW_TAGS.search(template.read_bytes())


def test_gradios_mcp_server_still_asks_for_addresses_and_an_upload_tool() -> None:
    mcp = pytest.importorskip("gradio.mcp", reason="gradio[mcp] is not installed")
    source = inspect.getsource(mcp.GradioMCPServer if "web.gradio" not in mcp.GradioMCPServer.__module__ else mcp)
    assert "_file_data_tool_description" in source and "http or https url" in inspect.getsource(mcp)


def test_gradios_front_end_still_takes_the_language_from_the_browser() -> None:
    assets = Path(gr.__file__).parent / "templates" / "frontend" / "assets"
    assert any("navigator.language" in file.read_text(encoding="utf-8") for file in assets.glob("*.js"))
    assert "get:()=>'ja'" in gradio_workarounds.language_script("ja")
