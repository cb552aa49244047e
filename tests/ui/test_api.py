"""Tests of the API over HTTP, and as MCP tools with an MCP client. A fake runner replaces the models."""

import ast
import asyncio
import base64
import importlib.util
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image
from support.fake_runner import FakeRunner
from support.page_support import serving, stored
from support.samples import failed_result, ok_result

from demo.core.options import BadInput, RunSpec
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.store import published
from demo.store.history import History
from demo.ui import api
from demo.ui.page import Page
from demo.ui.tabs import form


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Client, list[tuple[RunSpec, Path]]]]:
    """Yields a client of the page, and the calls of its fake runner so far."""
    runs: list[tuple[RunSpec, Path]] = []

    def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
        runs.append((spec, image))
        if spec.batch_size == 13:
            return BadInput("Batch size 13 is unlucky. Choose another one.")
        if spec.batch_size == 14:
            return RuntimeError("secret")
        return ok_result(spec=spec)

    history = History()
    for result in (ok_result(), failed_result(), stored("detection")):
        history.append(result)
    with_mcp = importlib.util.find_spec("mcp") is not None
    with serving(Page(FakeRunner(answer), history=history), mcp_server=with_mcp) as address:
        yield Client(address, verbose=False), runs


def test_the_default_run_answers_with_the_documented_json(served: Any) -> None:
    client, runs = served
    answer = client.predict(api_name="/benchmark")
    spec, image = runs[-1]
    assert from_json(answer) == ok_result(spec=spec)
    assert answer["speedup"]["verdict"] == "faster" and answer["summary"].startswith("shapes-vit on ")
    assert answer["eager"]["median_ms"] == pytest.approx(2.04)
    assert (spec.checkpoint, image) == ("shapes-vit", form.scenes()[0])


def test_a_flat_row_rests_on_all_repeats(served: Any) -> None:
    client, _ = served
    row = client.predict(repeats=3, whole=False, api_name="/benchmark")
    assert (row["speedup_basis"], row["repeats"]) == ("repeats", 3)


def test_options_of_each_kind_reach_the_run(served: Any) -> None:
    client, runs = served
    owl = ("google/owlvit-base-patch32", "object-detection")
    options = {"batch_size": 4, "mode": "max-autotune", "fullgraph": True, "weights": "random", "iterations": 30}
    picture = form.photographs()[0]
    client.predict(*owl, image=handle_file(str(picture)), text="a lion, a tree", **options, api_name="/benchmark")
    spec, image = runs[-1]
    assert spec == RunSpec(*owl, text=("a lion", "a tree"), **options)
    assert image.read_bytes() == picture.read_bytes()


def test_a_prompt_runs_without_a_picture(served: Any) -> None:
    client, runs = served
    client.predict(checkpoint="shapes-gemma", prompt="A ring", tokens=8, api_name="/benchmark")
    assert runs[-1] == (RunSpec("shapes-gemma", "text-generation", prompt="A ring", tokens=8), None)


@pytest.mark.parametrize(
    ("endpoint", "arguments", "sentence"),
    [
        (
            "benchmark",
            {"checkpoint": "shapes-gemma", "prompt": "A", "image": handle_file(str(form.scenes()[0]))},
            "text-generation sees no picture: leave",
        ),
        ("benchmark", {"batch_size": 0}, "Batch size must be a whole number from 1 to"),
        ("benchmark", {"batch_size": 13}, "Batch size 13 is unlucky. Choose another one."),
        ("benchmark", {"batch_size": 14}, "an error that it did not expect"),
        ("history", {"id": "nothing"}, "No stored run has the id 'nothing'"),
        ("history", {"limit": 201}, "whole number from 1 to 200. Given: 201"),
        ("history", {"calls": 0}, "between two restarts must be a whole number from 1"),
        ("best", {"minutes": 0.5}, "A search takes 1 to 60 minutes. Given: 0.5."),
        ("published", {"gpu": "H100"}, "no GPU 'H100'. They have: A100, V100, T4"),
    ],
    ids=[
        "a picture for text",
        "bad option",
        "refused by a worker",
        "error",
        "id",
        "limit",
        "calls",
        "minutes",
        "filter",
    ],
)
def test_a_refusal_is_a_sentence(endpoint: str, arguments: dict[str, Any], sentence: str, served: Any) -> None:
    with pytest.raises(AppError, match=re.escape(sentence)) as refused:
        served[0].predict(**arguments, api_name=f"/{endpoint}")
    assert "secret" not in str(refused.value)


def test_a_search_answers_with_its_table(served: Any) -> None:
    client, runs = served
    before = len(runs)
    table = client.predict(batch_size=2, minutes=1, api_name="/best")
    assert table["complete"] and {(spec.batch_size, spec.dtype) for spec, _ in runs[before:]} == {(2, "float32")}
    rows = {row["way"]: row for row in table["rows"]}
    assert {"eager", "default", "freezing", "package", "layers"} <= rows.keys()
    assert table["winner"] == "default" and "freezing" in table["equals"]  # all are equally fast: the simplest
    assert rows["default"]["speedup"]["ratio"] == pytest.approx(2.0, abs=0.01) and rows["eager"]["rank"] > 1


def test_stored_runs_are_listed_as_rows_or_whole(served: Any) -> None:
    client, _ = served
    rows = client.predict(api_name="/history")
    assert [row["started_at"] for row in rows] == sorted((row["started_at"] for row in rows), reverse=True)
    assert (len(rows), len(client.predict(limit=1, api_name="/history"))) == (3, 1)
    (result,) = client.predict(id=ok_result().id, api_name="/history")
    assert from_json(result) == ok_result()
    (same,) = client.predict(search=ok_result().id, whole=True, api_name="/history")
    assert same == result


@pytest.mark.parametrize("endpoint", ["/benchmark", "/history"])
def test_a_number_of_calls_is_answered(endpoint: str, served: Any) -> None:
    client, _ = served
    if endpoint == "/benchmark":
        answer = client.predict(calls=40_000, api_name=endpoint)
    else:
        (answer,) = client.predict(id=ok_result().id, calls=40_000, api_name=endpoint)
    work = answer["whole_work"]
    assert work["calls"] == 40_000
    assert work["starts"]["cold"]["saved"]["low"] == pytest.approx(ok_result().whole_work(40_000)["cold"].saved.low)


def test_published_rows_are_filtered(served: Any) -> None:
    table = served[0].predict(gpu="T4", subset="nightly", batch_size=16, api_name="/published")
    assert [(row["model"], row["eager_ms"]) for row in table["rows"]] == [("BeiT", 42.179), ("DETR", "OOM")]
    assert "Repeats" in table["rows"][0]["notes"][0]
    assert len(table["faults"]) == len(published.faults()) and table["sources"]


def call_tool(served: Any, tool: str = "", **arguments: Any) -> Any:
    """Returns the answer of the tool, or without a name all tools by name. Needs gradio's extra 'mcp'."""
    mcp = pytest.importorskip("mcp", reason="gradio[mcp] is not installed")
    from mcp.client.streamable_http import streamablehttp_client

    async def call() -> Any:
        url = f"{served[0].src}gradio_api/mcp/"
        async with streamablehttp_client(url) as (reading, writing, _), mcp.ClientSession(reading, writing) as client:
            await client.initialize()
            if tool:
                return await client.call_tool(tool, arguments)
            return {entry.name: entry for entry in (await client.list_tools()).tools}

    return asyncio.run(call())


def test_the_endpoints_are_documented_tools(served: Any) -> None:
    tools = call_tool(served)
    assert set(tools) == {"benchmark", "best", "history", "published_table"}
    for tool in tools.values():
        for name, field in tool.inputSchema["properties"].items():
            assert re.fullmatch(r"[A-Z0-9\"].*\.", field["description"]), (tool.name, name, field["description"])
    source = " ".join(inspect.getdoc(api.published_table).split("Args:")[0].split())
    assert tools["published_table"].description == source


def test_a_tool_runs_on_a_picture_that_is_a_data_url(served: Any) -> None:
    file = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    answer = call_tool(served, "benchmark", checkpoint="shapes-vit", batch_size=4, whole=True, image=url)
    assert not answer.isError, answer.content[0].text
    result = ast.literal_eval(answer.content[0].text)  # the text of a Python literal
    assert (result["spec"]["batch_size"], result["speedup"]["verdict"]) == (4, "faster")
    assert served[1][-1][1].read_bytes() == file.getvalue()


FILE = {"meta": {"_type": "gradio.FileData"}}


@pytest.mark.parametrize("source", ["path", "address"])
def test_a_tool_runs_on_an_uploaded_picture(source: str, served: Any) -> None:
    picture, address = form.photographs()[0], f"{served[0].src}gradio_api/"
    (path,) = httpx.post(f"{address}upload", files={"files": picture.open("rb")}).json()
    image = {"path": path, "address": f"{address}file={path}"}[source]
    answer = call_tool(served, "benchmark", image=image)
    assert not answer.isError, answer.content[0].text
    assert served[1][-1][1].read_bytes() == picture.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        {"image": "http://127.0.0.1:9/picture.png"},
        {"image": "https://example.invalid/gradio_api/file=/etc/passwd"},
        {"image": "/etc/passwd"},
        {"image": FILE | {"path": "/etc/passwd"}},
        {"image": FILE | {"url": "http://127.0.0.1:9/picture.png"}},
        {"image": "a\0b"},
        {"image": "data:image/png;base64,A"},
        {"checkpoint": FILE | {"path": "/etc/passwd"}},
        {"nonsense": FILE | {"path": "/etc/passwd"}},
    ],
    ids=[
        "an address",
        "an address and a file",
        "a file",
        "a described file",
        "a url",
        "null",
        "no base64",
        "elsewhere",
        "unknown",
    ],
)
def test_a_tool_reads_uploads_only(arguments: Any, served: Any) -> None:
    before = len(served[1])
    answer = call_tool(served, "benchmark", **arguments)
    assert answer.isError and re.search("Over MCP a picture is|validation error|not a valid", answer.content[0].text)
    assert len(served[1]) == before


def test_a_refused_request_for_tools_is_one_line_in_the_log(served: Any, caplog) -> None:
    pytest.importorskip("mcp", reason="gradio[mcp] is not installed")
    accepts = {"Accept": "application/json, text/event-stream"}
    request = {"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": {}}
    assert "Invalid request" in httpx.post(f"{served[0].src}gradio_api/mcp/", json=request, headers=accepts).text
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("Failed to validate request") and "\n" not in line
