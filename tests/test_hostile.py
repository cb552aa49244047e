"""Input of somebody who means harm, or types nonsense: a documented refusal, and nothing opened, fetched, allocated."""

import argparse
import asyncio
import contextlib
import dataclasses
import errno
import inspect
import io
import itertools
import json
import os
import random
import re
import select
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gradio as gr
import httpx
import pytest
import torch
from fake_runner import MACHINE, FakeRunner
from hypothesis import HealthCheck, given, settings, strategies as st
from page_support import handler, serving
from safetensors.torch import load_file
from samples import ok_result

from demo.backend import models
from demo.cli.main import main, parser
from demo.core import catalog, format as fmt, limits
from demo.core.base64_images import LONG_SIDE
from demo.core.result_json import from_json
from demo.core.spec import OPTIONS, TASKS, BadInput, Option, RunSpec
from demo.store.history import FOLDER_VARIABLE, History
from demo.ui import api
from demo.ui.jobs import RunQueue
from demo.ui.page import Page
from demo.ui.web import gradio_workarounds
from demo.ui.web.guard import MAX_BYTES
from tests.backend.test_models import VIT

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
CONTROL = "\x1b[2J\x07\u202e\x00"


# ---- checkpoint ids


TRICKS = [
    "../../etc/passwd",
    "/etc/passwd",
    "./model",
    "file:///etc/passwd",
    "http://169.254.169.254/latest/meta-data",
    "https://huggingface.co/microsoft/resnet-50",
    "owner/name; rm -rf /",
    "owner/`id`",
    "owner/name\nSet-Cookie: a",
    "owner/name\x00.png",
    "owner/../name",
    "owner/name/more",
    "owner/--upload-pack=x",
    "owner/name.git",
    "оwner/nаme",  # Cyrillic o and a
    "owner／name",  # a full-width solidus
    "owner/na\u202eme",
    "owner/" + "x" * 200,
    "ﬁle/name",
]


def test_a_checkpoint_that_is_no_id_is_refused_before_anything_is_looked_up() -> None:
    for trick in TRICKS:
        with pytest.raises(BadInput) as refused:
            catalog.make_spec(trick, "image-classification")
        assert len(str(refused.value)) < 400
        assert fmt.printable(str(refused.value)) == str(refused.value)


def test_on_a_space_a_visitor_picks_from_the_list_unless_the_owner_allows_more(monkeypatch) -> None:
    here = {"SPACE_ID": "someone/space", "WORTH_COMPILING_BATCH": "8"}
    monkeypatch.setattr(limits, "current", lambda: limits.read(here))
    with pytest.raises(BadInput, match="runs no other checkpoints"):
        catalog.make_spec("owner/name", "image-classification")
    assert catalog.make_spec("microsoft/resnet-50", batch_size=8).checkpoint == "microsoft/resnet-50"
    with pytest.raises(BadInput, match="at most 8 here"):
        catalog.make_spec("microsoft/resnet-50", batch_size=9)
    here["WORTH_COMPILING_HUB_IDS"] = "1"
    assert catalog.make_spec("owner/name", "image-classification").checkpoint == "owner/name"


# ---- limits


def test_every_limit_is_a_setting_and_what_makes_no_sense_is_a_sentence_and_not_a_guess() -> None:
    settings = {field.metadata["variable"]: field for field in dataclasses.fields(limits.Limits) if field.metadata}
    for variable, field in settings.items():
        assert getattr(limits.read({variable: " 7 "}), field.name) == 7 * field.metadata["factor"]
    assert limits.read({"WORTH_COMPILING_TIMEOUT": "0.5"}).seconds == 0.5
    assert limits.read({"SPACE_ID": "somebody/space"}).sweep_cells == 24
    assert not limits.read({"WORTH_COMPILING_HUB_IDS": "off"}).hub_ids
    assert limits.read({"WORTH_COMPILING_HUB_IDS": ""}).hub_ids
    for variable in [*settings, limits.HUB_IDS_VARIABLE]:
        for typed in ["many", "-1", "0x10", "1e999", "nan", "inf", "٣" * 30, "9" * 5000, "1;2"]:
            with pytest.raises(BadInput, match=f"^{variable} must be .* Given: ") as refused:
                limits.read({variable: typed})
            assert len(str(refused.value)) < 300


def test_a_visitor_has_one_run_at_a_time_and_another_visitor_too() -> None:
    line = RunQueue(longest=10)
    with line.join("one"):
        with pytest.raises(BadInput, match="Your last run is not over yet"), line.join("one"):
            pass
        with line.join("two"):
            pass
    with line.join("one"):
        pass


# ---- what a config claims


@pytest.mark.parametrize("way", ["the config names it", "the index names it"])
def test_a_pickle_is_not_read_whichever_file_leads_to_it(way: str, tmp_path) -> None:
    folder = shutil.copytree(VIT, tmp_path / "pickle")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "adapter_model.bin")
    if way == "the config names it":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"transformers_weights": "adapter_model.bin"}))
    else:
        index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "adapter_model.bin")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BadInput, match=r"no file named model\.safetensors|weights that are no safetensors") as refused:
        models.load(RunSpec(str(folder), "image-classification"), torch.device("cpu"))
    assert str(tmp_path) not in str(refused.value)


def test_labels_of_a_config_are_short_and_carry_no_control_characters(tmp_path) -> None:
    folder = shutil.copytree(VIT, tmp_path / "labels")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {n: f"<b>{CONTROL}{n}\n" + "x" * 1000 for n in config["id2label"]}
    (folder / "config.json").write_text(json.dumps(config))
    loaded = models.load(RunSpec(str(folder), "image-classification"), torch.device("cpu"))
    for label in loaded.model.config.id2label.values():
        assert len(label) <= 200 and fmt.printable(label) == label and "\n" not in label


def test_errors_keep_the_name_of_a_file_and_lose_its_folder() -> None:
    for text, shown in [
        ("no such file: '/tmp/torchinductor_root/ab/c.py'", "no such file: 'c.py'"),
        ("/home/me/x.py:12: error", "x.py:12: error"),
        ("in ~/secret/y and file:///etc/passwd", "in y and passwd"),
        ("/var/tmp/", "…"),
        ("microsoft/resnet-50 and 1/2", "microsoft/resnet-50 and 1/2"),
        ("https://huggingface.co/a/b", "https://huggingface.co/a/b"),
    ]:
        assert fmt.without_folders(text) == shown


# ---- the API over HTTP


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[RunSpec]]]:
    """The page's address, and what was run on it so far."""
    page = Page(runner := FakeRunner(lambda spec, image: ok_result(spec=spec)))
    with serving(page) as address:
        assert (page.analytics_enabled, page.allowed_paths, page.show_error, page.share) == (False, [], False, False)
        assert page.max_file_size == limits.Limits.file_bytes
        yield address, runner.runs


def post(address: str, body: Any, path: str = "call/benchmark", kind: str = "application/json") -> tuple[int, str]:
    """Status and text of what the server answers to these bytes, or to this as JSON; where it took them, the text of
    what the call itself answers."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{address}gradio_api/{path}"
    answer = httpx.post(url, content=sent, headers={"Content-Type": kind}, timeout=30)
    if answer.status_code == 200:
        answer = httpx.get(f"{url}/{answer.json()['event_id']}", timeout=30)
    return answer.status_code, answer.text


def config(address: str) -> list[dict[str, Any]]:
    """The page's events."""
    return list(httpx.get(f"{address}config").json()["dependencies"])


def asking(**changes: Any) -> dict[str, Any]:
    """A request for the default run with these fields changed, as the API wants it: every value in its place."""
    fields = dict(inspect.signature(benchmark()).parameters)
    del fields["request"]
    return {"data": [changes.get(name, field.default) for name, field in fields.items()]}


def without_leaks(text: str) -> bool:
    return not re.search(r"Traceback|File \"|site-packages|\.py\b|/work|/root|/tmp|/home", text)


DEEP = b'{"data": [' + b"[" * 10_000 + b"]" * 10_000 + b"]}"
PASSWD = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}


def test_a_call_that_does_not_fit_is_told_in_a_sentence_and_leaves_no_trace_in_the_log(served: Any, capfd) -> None:
    address, _ = served
    number = next(one["id"] for one in config(address) if one["api_name"] == "benchmark")
    for path, body, status, says in [
        ("call/benchmark", DEEP, 400, "JSON"),
        ("call/benchmark", b'{"data": [' + b"[" * 200 + b"]" * 200 + b"]}", 400, "nested more than 64 deep"),
        ("call/benchmark", b'{"data": ["shapes-vit", null, null, NaN]}', 400, "NaN"),
        ("call/benchmark", b'{"data": ["shapes-vit", null, null, 1e999]}', 400, "JSON"),
        ("call/benchmark", b'{"data": ["\\ud800"]}', 400, "JSON"),
        ("call/benchmark", b"not json", 400, "JSON"),
        ("call/benchmark", b"\xff\xfe", 400, "JSON"),
        ("call/benchmark", b'{"data": "' + b"x" * (MAX_BYTES + 1) + b'"}', 413, "2 MB"),
        ("call/benchmark", [], 422, "body: Input should be"),
        ("call/benchmark", {}, 422, "body.data: Field required"),
        ("call/benchmark", {"data": []}, 200, "/benchmark takes 29 values, in this order: checkpoint, task, image"),
        ("call/benchmark", {"data": [{"a": 1}]}, 200, "Given: 1."),
        ("call/benchmark", asking(checkpoint={}), 200, "No checkpoint was given"),
        ("call/benchmark", asking(image=7), 200, "must be an uploaded file"),
        ("call/benchmark", asking(text=[[]]), 200, "text queries are a list"),
        ("call/v2/benchmark", {"nonsense": 1}, 400, "Parameter `nonsense` is not a valid"),
        ("call/v2/published", {"x": 1, "y": 2}, 400, "Parameter `x` is not a valid"),
        ("call/v2/benchmark", [], 422, "body: Input should be a valid dictionary"),
        ("call/v2/nothing", {}, 404, "'nothing'. There are /benchmark, /published, /history, /best."),
        ("call/_forecast", {"data": []}, 404, "There is no endpoint '_forecast'."),
        ("call/published", {"data": []}, 200, "/published takes 5 values, in this order: subset"),
        ("call/history", {"data": [PASSWD, "", 1, False]}, 200, "must be an uploaded file"),
        ("call/v2/published", {"model": PASSWD}, 200, "must be an uploaded file"),
        ("call/v2/benchmark", {"image": {**PASSWD, "path": "a\0b"}}, 200, "must be an uploaded file"),
        ("queue/join", {"data": [], "fn_index": number}, 400, "Session hash not found"),
        ("queue/join", {"fn_index": number, "session_hash": "a"}, 422, "body.data: Field required"),
        ("queue/join", {"data": [], "fn_index": number, "session_hash": ["a"]}, 422, "body.session_hash: Input should"),
        ("run/predict", [], 422, "body: Input should be"),
        ("run/predict", {"data": [], "fn_index": number}, 404, "join the queue"),
        ("cancel", {}, 422, "body.event_id: Field required"),
    ]:
        answered, text = post(address, body, path)
        assert answered == status and says in text, text[:500]
        assert text.startswith("event: error\n") if answered == 200 else isinstance(json.loads(text)["detail"], str)
        assert without_leaks(text), text[:500]
    for kind in ("Multipart/Form-Data; boundary=a", "text/plain", ""):  # none leads JSON around the guard
        for path in ("call/benchmark", "call/v2/benchmark", "queue/join"):
            assert post(address, DEEP, path, kind)[0] == 400
    assert '"session_not_found":true' in httpx.get(f"{address}gradio_api/queue/data?session_hash=nobody").text
    assert "event: complete" in post(address, asking())[1]
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out


ODD: list[Any] = [None, True, 0, -1, 7, 2**70, 1.5, 1e300, "", "shapes-vit", "\x00", "../../etc/passwd", "x" * 5000]
ODD += [
    [],
    [[]],
    [1, "a", None],
    ["x"],
    {},
    {"a": 1},
    {"path": 7},
    PASSWD,
    {"value": "default"},
    {"__type__": "update"},
]


def test_no_forged_call_of_an_event_ends_in_a_traceback(tmp_path, capfd) -> None:
    """Each event of the page with one wrong value, with all wrong, and with a wrong number of them."""
    numbers, chance = itertools.count(), random.Random(7)
    runner = FakeRunner(lambda spec, image: ok_result(spec=spec, id=f"run{next(numbers)}"))
    page = Page(runner, history=History(tmp_path / "history.sqlite3"))
    sent, refused = 0, 0
    with serving(page) as address, httpx.Client(base_url=f"{address}gradio_api/", timeout=60) as client:
        for number, event in page.fns.items():
            first = [getattr(block, "value", None) for block in event.inputs]
            wrong = [[*first[:place], chance.choice(ODD), *first[place + 1 :]] for place in range(len(first))]
            asked = [*chance.sample(wrong, min(2, len(wrong))), [chance.choice(ODD) for _ in first]]
            for data in [*asked, [*first, None]] if event.fn else [first]:
                about = {"event_data": chance.choice(ODD), "trigger_id": chance.choice([None, 1, 2**40])}
                for route, joins in (("queue/join", True), ("run/predict", False)):
                    body = {"fn_index": number, "data": data, "session_hash": f"{number}", **about}
                    answer = client.post(route, json=body)
                    right = event.fn is not None and event.queue is joins
                    assert (answer.status_code in (200, 400)) if right else answer.status_code == 404, answer.text
                    assert without_leaks(answer.text) or answer.status_code == 200
                    sent += right
            if event.fn and event.queue:
                stream = client.get("queue/data", params={"session_hash": str(number)}).text
                ends = [json.loads(line[6:]) for line in stream.splitlines() if '"process_completed"' in line]
                assert all(end["success"] or end["output"]["error"] for end in ends), stream[-500:]
                refused += sum(not end["success"] for end in ends)
    assert sent > 200 and refused > 100
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out and "etc/passwd" not in told.err


def test_joins_that_nobody_reads_leave_the_page_answering(served: Any, monkeypatch) -> None:
    address, _ = served
    monkeypatch.setattr(gradio_workarounds, "MOST_UNREAD_OF_A_CLIENT", 5)
    for number in range(20):
        body = {"data": asking()["data"], "session_hash": f"unread {number}"}
        name = {"fn_index": next(one["id"] for one in config(address) if one["api_name"] == "published")}
        assert httpx.post(f"{address}gradio_api/queue/join", json=body | name).status_code in (200, 429)
    assert "event: complete" in post(address, asking())[1]
    assert '"session_not_found":true' in httpx.get(f"{address}gradio_api/queue/data?session_hash=unread 0").text


@pytest.mark.parametrize("streams", [2, 3])
def test_several_streams_of_one_session_leave_no_trace_in_the_log(served: Any, capfd, streams: int) -> None:
    address, _ = served

    async def read(client: httpx.AsyncClient) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                return (await client.get("queue/data", params={"session_hash": "shared"})).text
        return ""

    async def ask() -> list[str]:
        async with httpx.AsyncClient(base_url=f"{address}gradio_api/", timeout=30) as client:
            number = next(one["id"] for one in config(address) if one["api_name"] == "published")
            body = {"data": ["a visitor's text"] * 5, "fn_index": number, "session_hash": "shared"}
            for _ in range(streams):
                await client.post("queue/join", json=body)
            return await asyncio.gather(*(read(client) for _ in range(streams)))

    answers = asyncio.run(ask())
    assert sum("close_stream" in answer for answer in answers) >= 1
    assert "event: complete" in post(address, asking())[1]
    told = capfd.readouterr()
    assert "Traceback" not in told.err + told.out and "visitor" not in told.err + told.out


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine, which nobody may have called at the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
        assert select.select([server], [], [], 0)[0] == []


def test_a_picture_that_was_not_uploaded_is_neither_opened_nor_fetched(served: Any, port: int) -> None:
    address, asked = served
    before = len(asked)
    for path in [
        f"http://127.0.0.1:{port}/secret.png",
        f"http://[::ffff:127.0.0.1]:{port}/secret.png",
        f"http://2130706433:{port}/secret.png",
        "https://example.com/picture.png",
        "file:///etc/passwd",
        "/etc/passwd",
        "C:\\secret.png",
        "",
        "\x00",
    ]:
        for field in ["path", "url"]:
            status, text = post(address, asking(image={field: path, "meta": {"_type": "gradio.FileData"}}))
            assert status in (400, 422) or "event: error" in text
            assert without_leaks(text), text
    assert len(asked) == before


def test_no_address_in_a_path_is_fetched(served: Any, port: int, monkeypatch) -> None:
    """Even where gradio would take the address for a public one: here this machine's own passes for that."""
    import safehttpx

    async def passes(host: str) -> str:
        return "127.0.0.1"

    monkeypatch.setattr(safehttpx, "async_validate_url", passes)
    for method in ("GET", "HEAD"):
        for written in (f"http://127.0.0.1:{port}/x.png", f"HTTP://public.example:{port}/x", f"http%3A%2F%2Fa:{port}"):
            for route in ("gradio_api/file=", "file=", "gradio_api/proxy="):
                assert httpx.request(method, served[0] + route + written, timeout=30).status_code == 403


# ---- errors of the store


def test_an_error_of_the_store_reaches_no_browser_with_its_folder(tmp_path) -> None:
    unreadable = History(tmp_path / "secret-folder" / "history.sqlite3")
    unreadable.path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(unreadable.path)) as another_program:
        another_program.execute("PRAGMA user_version = 99")
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)), history=unreadable)
    tab, sweeps = page.history_tab, page.sweep_tab
    export = handler(page, of=(tab.exports["csv"], "click"))
    axes = [field.value for field in sweeps.axes.values()]
    told = [
        handler(page, of=(tab.search, "change"), changes=tab.runs)("", [])[tab.shown],
        handler(page, of=(tab.compare_button, "click"))(["one", "two"])[tab.message],
        handler(page, of=(tab.for_good_button, "click"))(["one"], "")[tab.message],
        str(page.run_tab.open("one", None)),
        str(handler(page, of=(sweeps.start_button, "click"))(None, *axes, "pretrained", False)),
    ]
    stored = api.history_endpoint(unreadable)
    for ask in (
        lambda: stored(search="vit"),
        lambda: stored(id="one"),
        lambda: export([], ""),
        lambda: export(["one"], ""),
    ):
        with pytest.raises(gr.Error) as refused:
            ask()
        told.append(str(refused.value.message))
    for sentence in told:
        assert "history.sqlite3" in sentence and "secret-folder" not in sentence


def test_a_search_of_too_many_words_is_refused_with_the_limit(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (history := History()).append(ok_result())
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)), history=history)
    words = "a " * 1100
    with pytest.raises(gr.Error, match=r"at most 20 words\. Given: 1100"):
        api.history_endpoint(history)(search=words)
    shown = handler(page, of=(page.history_tab.search, "change"), changes=page.history_tab.runs)(words, [])
    assert "at most 20 words" in shown[page.history_tab.shown]
    assert main(["history", "--search", words]) == 2
    assert api.history_endpoint(history)(search="vit " * 20)[0]["checkpoint"] == "shapes-vit"


@pytest.mark.parametrize(("error", "says"), [(errno.ENOSPC, "disk"), (errno.EMFILE, "files")])
def test_a_server_without_room_for_a_picture_says_so(served: Any, monkeypatch, capfd, error: int, says: str) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(error, os.strerror(error))

    path = uploaded(served[0], b"hello").json()[0]
    monkeypatch.setattr("gradio.route_utils.NamedTemporaryFile", full)
    refused = uploaded(served[0], b"hello")
    assert refused.status_code == 507 and says in refused.json()["detail"]
    monkeypatch.setattr("gradio.processing_utils.async_move_files_to_cache", full)
    _, text = post(served[0], asking(image={"path": path, "meta": {"_type": "gradio.FileData"}}))
    assert "event: error" in text and says in text
    assert "Traceback" not in capfd.readouterr().err


def uploaded(address: str, content: bytes) -> httpx.Response:
    return httpx.post(f"{address}gradio_api/upload", files={"files": ("a.png", content)}, timeout=60)


def test_an_uploaded_file_is_limited(served: Any) -> None:
    for size, status in ((1000, 200), (limits.Limits.file_bytes + 1, 413)):
        assert uploaded(served[0], b"x" * size).status_code == status


def test_on_a_space_whoever_gives_a_picture_is_told_that_others_can_see_it(monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)))
    (note,) = [block for block in page.blocks.values() if getattr(block, "elem_id", "") == "picture-public"]
    assert f"at most {LONG_SIDE} pixels" in note.value and "Everybody who opens this page" in note.value


# ---- properties: the API's function and the command line with anything

NUMBERS = st.integers() | st.floats() | st.sampled_from(["4", "1e3", "٣", "", " 7 ", "0x10", "-1", "nan"])
ANYTHING = st.none() | st.booleans() | NUMBERS | st.text(max_size=30) | st.lists(st.integers(), max_size=3)


def values_of(option: Option) -> st.SearchStrategy[Any]:
    """Values that an option takes, and anything."""
    kinds = {"switch": st.booleans(), "whole": NUMBERS, "number": NUMBERS}
    good = st.sampled_from(option.values) if option.values else kinds.get(option.kind, st.text(max_size=300))
    return good | ANYTHING


ANY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    **{name: values_of(option) for name, option in OPTIONS.items()},
    "checkpoint": st.sampled_from([c.id for c in catalog.CHECKPOINTS] + TRICKS) | ANYTHING,
    "task": st.sampled_from(TASKS) | ANYTHING,
    "image": st.none() | st.fixed_dictionaries({"path": st.text(max_size=30)}) | ANYTHING,
    "whole": st.booleans() | ANYTHING,
    "example": st.sampled_from(["", "lion", "shapes-scene-7"]) | ANYTHING,
}


def benchmark() -> Any:
    return api.endpoint(FakeRunner(lambda spec, image: ok_result(spec=spec)), RunQueue())


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.fixed_dictionaries({}, optional=ANY_FIELD))
def test_the_api_answers_anything_with_a_result_or_a_documented_error(asked: dict[str, Any]) -> None:
    try:
        answer = benchmark()(SimpleNamespace(session_hash="one", headers={}), **asked)
    except gr.Error as refused:
        sentence = str(refused.message)
        assert sentence.endswith((".", "?")) and len(sentence) < 600
        assert "did not expect" not in sentence
        assert without_leaks(re.sub(r"'[^']*'|\"[^\"]*\"", "", sentence))
    else:
        status = from_json(answer).status if asked.get("whole", True) else answer["status"]
        assert status == "ok"


WORDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=20)
GOOD = {
    "--checkpoint": "shapes-vit", "--image": str(SCENE), "--mode": "default", "--dtype": "float32", "--device": "cpu",
    "--task": "image-classification", "--weights": "random", "--attention": "sdpa", "--protocol": "as published",
    "--precision": "0.1", "--iterations": "20", "--cache": "keep", "--profile": "on", "--trace": "trace",
    "--preset": "smoke", "--out": "table.csv", "--engine": "ray", "--search": "vit", "--subset": "release",
    "--gpu": "T4", "--model": "vit", "--prompt": "The picture shows", "--tokens": "8",
}  # fmt: skip
"""A value that means something; of the other options 1 does."""
NEEDED = ("--checkpoint", "--image")
COMMANDS = ["run", "list", "published", "best", "script stored", "sweep", "sweep grid.yaml", "history"]
COMMANDS += ["history stored", "history export runs.json", "history delete stored --yes"]


def options_of(command: str) -> dict[str, bool]:
    """The command's options as its parser has them, and whether each takes a value."""
    program: Any = parser()
    for word in command.split():
        choices = [action.choices for action in program._actions if isinstance(action, argparse._SubParsersAction)]
        if not choices:
            break
        program = choices[0][word]
    found = {action.option_strings[-1]: action.nargs != 0 for action in program._actions if action.option_strings}
    found.pop("--help")
    found.pop("--measured", None)  # writes into the project's own folder, and refuses only once the table is printed
    return found


@st.composite
def arguments_of_any_command(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from([*COMMANDS, ""]))
    if not command:
        return draw(st.lists(WORDS, max_size=3))
    options, words = options_of(command), command.split()
    if draw(st.integers(0, 3)):
        words += [word for name in NEEDED if name in options for word in (name, GOOD[name])]
    for name in draw(st.lists(st.sampled_from(sorted(options) or ["--none"]), max_size=3)):
        words.append(name)
        if options.get(name):
            good, strange = st.just(GOOD.get(name, "1")), st.sampled_from(TRICKS) | NUMBERS.map(str) | WORDS
            words.append(draw(st.one_of(good, good, good, strange)))
    if not draw(st.integers(0, 3)):
        words.append(draw(st.sampled_from(["--nonsense", "-h5", "--", "--help"]) | WORDS))
    return words


@settings(max_examples=100, suppress_health_check=list(HealthCheck))  # a tenth of a second each
@given(arguments_of_any_command())
def test_the_command_line_answers_anything_with_a_documented_code_and_a_sentence(arguments: list[str]) -> None:
    """Each command up to where a model would be loaded: nothing is compiled, searched or packed."""
    said, told = io.StringIO(), io.StringIO()

    refused = BadInput("It refuses random weights.")
    runner = FakeRunner(lambda spec, image: refused if spec.weights == "random" else ok_result(spec=spec))
    runner.inspect = lambda: MACHINE
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),  # for what is written
        mock.patch.dict(os.environ, {"WORTH_COMPILING_DATA": folder}),
        mock.patch("demo.runs.runner.Runner", return_value=runner),
        mock.patch("demo.cli.sweep_command.run_cells", lambda *_: (event for event in ())),
        mock.patch("demo.sweep.best_way.Search.run", lambda *_: (event for event in ())),
        mock.patch("demo.sweep.ray_cluster.connect", side_effect=BadInput("There is no cluster here.")),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(told),
    ):
        History().append(ok_result(id="stored"))
        Path("grid.yaml").write_text("checkpoints: [shapes-vit]\n")
        try:
            code = main(arguments)
        except SystemExit as left:  # argparse's --help
            code = left.code
    assert code in (0, 1, 2)
    if code == 2:
        assert said.getvalue() == ""
        assert told.getvalue().strip().endswith((".", "?")), told.getvalue()
    assert "Traceback" not in told.getvalue()
