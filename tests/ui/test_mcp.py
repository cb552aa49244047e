"""The API as MCP tools, met by an MCP client. Needs gradio's extra 'mcp', which requirements-dev.txt pins.

gradio hands an answer over as the text of a Python literal.
"""

import ast
import asyncio
import base64
import inspect
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from PIL import Image
from samples import failed_result, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import History
from demo.ui.api import published_table
from demo.ui.page import build, launch

SEEN: list[bytes] = []
"""The pictures that were run on, as files."""
mcp = pytest.importorskip("mcp", reason="gradio[mcp] is not installed")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    history = History(tmp_path_factory.mktemp("data") / "history.sqlite3")
    history.append(failed_result())

    def answer(spec: RunSpec, image: Path) -> RunResult:
        SEEN.append(image.read_bytes())
        return ok_result(spec=spec)

    page = build(FakeRunner(answer), history=history)
    _, url, _ = launch(page, prevent_thread_lock=True, mcp_server=True)
    yield f"{url}gradio_api/mcp/"
    page.close(verbose=False)


def called(address: str, tool: str = "", **arguments: Any) -> Any:
    """The tools by name where none is called, else what the tool answered."""
    from mcp.client.streamable_http import streamablehttp_client

    async def call() -> Any:
        async with streamablehttp_client(address) as (reading, writing, _):
            async with mcp.ClientSession(reading, writing) as client:
                await client.initialize()
                if tool:
                    return await client.call_tool(tool, arguments)
                return {found.name: found for found in (await client.list_tools()).tools}

    return asyncio.run(call())


def test_the_endpoints_are_the_tools_and_say_what_they_take(address: str) -> None:
    tools = called(address)
    assert set(tools) == {"benchmark", "best", "history", "published_table"}
    assert not [name for name in tools if name.startswith("_") or "lambda" in name]
    assert "Times a model" in tools["benchmark"].description
    for tool in tools.values():
        assert tool.description.endswith(".") and not re.search(
            r"[,.]\s*,|[a-z],, |Returns|upload_file", tool.description
        )
        for name, field in tool.inputSchema["properties"].items():
            assert re.fullmatch(r"[A-Z0-9\"].*\.", field["description"]), (tool.name, name, field["description"])
            assert "http" not in json.dumps(field)
    source = " ".join(inspect.getdoc(published_table).split("Args:")[0].split())
    assert tools["published_table"].description == source
    assert "batch_size" in tools["benchmark"].inputSchema["properties"]
    assert "newest first" in tools["history"].description
    assert set(tools["history"].inputSchema["properties"]) == {"id", "search", "limit", "whole"}


def test_a_tool_runs_and_answers_with_the_result(address: str) -> None:
    answer = called(address, "benchmark", checkpoint="shapes-vit", batch_size=4, whole=True)
    assert not answer.isError
    result = ast.literal_eval(answer.content[0].text)
    assert result["spec"]["batch_size"] == 4
    assert result["speedup"]["verdict"] == "faster"


def test_a_tool_is_given_a_picture_as_a_data_url(address: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    answer = called(address, "benchmark", image=url)
    assert not answer.isError, answer.content[0].text
    assert SEEN[-1] == file.getvalue()


def test_a_tool_fetches_no_address(address: str) -> None:
    before = len(SEEN)
    for given in (
        "http://127.0.0.1:9/picture.png",
        "HTTPS://example.org/a.png",
        "/etc/passwd",
        "data:image/png;base64",
        "",
    ):
        answer = called(address, "benchmark", image=given)
        assert answer.isError and len(SEEN) == before
        assert "data URL" in answer.content[0].text and "No address is fetched" in answer.content[0].text


def test_a_tool_says_which_argument_it_does_not_take(address: str) -> None:
    for tool in ("benchmark", "history", "published_table"):
        answer = called(address, tool, nonsense=1)
        assert answer.isError and "'nonsense' was unexpected" in answer.content[0].text
