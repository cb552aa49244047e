"""Tests that harmful or nonsensical input is refused in a sentence, and nothing is opened, fetched or allocated."""

import contextlib
import inspect
import io
import json
import os
import re
import select
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gradio as gr
import httpx
import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.torch import load_file
from support.fake_runner import FakeRunner
from support.page_support import serving
from support.samples import ok_result

from demo.backend import models
from demo.cli.main import main
from demo.core import catalog, format as fmt, limits
from demo.core.base64_images import LONG_SIDE
from demo.core.options import OPTIONS, TASKS, BadInput, Option, RunSpec
from demo.core.result_json import from_json
from demo.store.history import History
from demo.ui import api
from demo.ui.page import Page
from demo.ui.run_queue import RunQueue
from demo.ui.web.gradio_workarounds import errors_as_sentences
from tests.backend.test_models import CLASSIFY, CPU, VIT, change, changed_copy

CONTROL = "\x1b[2J\x07\u202e\x00"


# ---- checkpoint ids


TRICKS = [
    "../../etc/passwd",
    "file:///etc/passwd",
    "http://169.254.169.254/latest/meta-data",
    "owner/name; rm -rf /",
    "owner/name\nSet-Cookie: a",
    "owner/name\x00.png",
    "owner/../name",
    "owner/--upload-pack=x",
    "оwner/nаme",  # Cyrillic o and a
    "owner/na\u202eme",
    "owner/" + "x" * 200,
]


@pytest.mark.parametrize("trick", TRICKS, ids=ascii)
def test_a_checkpoint_that_is_no_id_is_refused(trick: str) -> None:
    with pytest.raises(BadInput) as refused:
        catalog.make_spec(trick, "image-classification")
    assert len(str(refused.value)) < 400 and fmt.printable(str(refused.value)) == str(refused.value)


def test_on_a_space_a_visitor_picks_from_the_list(monkeypatch) -> None:
    here = {"SPACE_ID": "someone/space", "WORTH_COMPILING_BATCH": "8"}
    monkeypatch.setattr(limits, "current", lambda: limits.limits_from(here))
    with pytest.raises(BadInput, match="runs no other checkpoints"):
        catalog.make_spec("owner/name", "image-classification")
    assert catalog.make_spec("microsoft/resnet-50", batch_size=8).checkpoint == "microsoft/resnet-50"
    with pytest.raises(BadInput, match="at most 8 here"):
        catalog.make_spec("microsoft/resnet-50", batch_size=9)
    here["WORTH_COMPILING_HUB_IDS"] = "1"
    assert catalog.make_spec("owner/name", "image-classification").checkpoint == "owner/name"


# ---- limits


def test_a_limit_is_set_by_its_variable() -> None:
    for name, variable in limits.VARIABLES.items():
        assert getattr(limits.limits_from({variable: "7"}), name) == 7


@pytest.mark.parametrize("variable", [limits.VARIABLES["queue"], limits.HUB_IDS_VARIABLE])
@pytest.mark.parametrize("typed", ["many", "-1", "1e999", "9" * 5000], ids=ascii)
def test_a_setting_that_makes_no_sense_is_refused(variable: str, typed: str) -> None:
    with pytest.raises(BadInput, match=f"^{variable} must be .* Given: .{{,200}}$"):
        limits.limits_from({variable: typed})


def test_zero_is_a_switch_alone() -> None:
    read = limits.limits_from({"WORTH_COMPILING_HOSTS": "Demo.example.org, box.local", "WORTH_COMPILING_HUB_IDS": "0"})
    assert (read.hosts, read.hub_ids) == (("demo.example.org", "box.local"), False)
    with pytest.raises(BadInput):
        limits.limits_from({limits.VARIABLES["queue"]: "0"})


def test_a_visitor_has_one_place_in_the_queue() -> None:
    line = RunQueue(longest=10)
    with line.join("one"), pytest.raises(BadInput, match="Your last run is not over yet"), line.join("one"):
        pass


# ---- what a config claims


@pytest.mark.parametrize("way", ["the config names it", "the index names it"])
def test_a_pickle_is_not_read(way: str, tmp_path) -> None:
    folder = shutil.copytree(VIT, tmp_path / "pickle")
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "adapter_model.bin")
    if way == "the config names it":
        change(folder / "config.json", {"transformers_weights": "adapter_model.bin"})
    else:
        index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "adapter_model.bin")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(BadInput, match=r"its weights as pickle|weights that are no safetensors") as refused:
        models.load_model(RunSpec(str(folder), CLASSIFY), CPU)
    assert str(tmp_path) not in str(refused.value)


def test_labels_of_a_config_are_short_and_printable(tmp_path) -> None:
    labels = {number: f"<b>{CONTROL}{number}\n" + "x" * 1000 for number in range(7)}
    loaded = models.load_model(RunSpec(changed_copy(tmp_path, "config.json", id2label=labels), CLASSIFY), CPU)
    for label in loaded.model.config.id2label.values():
        assert len(label) <= 200 and fmt.printable(label) == label and "\n" not in label


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no such file: '/tmp/torchinductor_root/ab/c.py'", "no such file: 'c.py'"),
        ("/home/me/x.py:12: error", "x.py:12: error"),
        ("in ~/secret/y and file:///etc/passwd", "in y and passwd"),
        ("/var/tmp/", "…"),
        ("microsoft/resnet-50 and 1/2", "microsoft/resnet-50 and 1/2"),
        ("https://huggingface.co/a/b", "https://huggingface.co/a/b"),
    ],
)
def test_an_error_keeps_a_files_name_and_loses_its_folder(text: str, shown: str) -> None:
    assert fmt.without_folders(text) == shown


# ---- the API over HTTP


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[RunSpec]]]:
    """Yields the address of a page, and the list of the specs that were run on it."""
    page = Page(runner := FakeRunner(lambda spec, image: ok_result(spec=spec)))
    with serving(page) as address:
        assert (page.analytics_enabled, page.allowed_paths, page.show_error, page.share) == (False, [], False, False)
        assert page.max_file_size == limits.Limits.file_bytes
        yield address, runner.runs


def post(address: str, body: Any, path: str) -> tuple[int, str]:
    """Posts bytes or JSON. Returns the status and the text of the answer, or of the event if the call was taken."""
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = f"{address}gradio_api/{path}"
    answer = httpx.post(url, content=sent, headers={"Content-Type": "application/json"}, timeout=30)
    if answer.status_code == 200:
        answer = httpx.get(f"{url}/{answer.json()['event_id']}", timeout=30)
    return answer.status_code, answer.text


def without_leaks(text: str) -> bool:
    return not re.search(r"Traceback|File \"|site-packages|\.py\b|/work|/root|/tmp|/home", text)


PASSWD = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("call/benchmark", b'{"data": ' + b"[" * 10_000, 400, "error parsing the body"),
        ("call/benchmark", {"data": []}, 200, "/benchmark takes 29 values. Given: 0."),
        ("call/v2/benchmark", {"checkpoint": {}}, 200, "No checkpoint was given"),
        ("call/v2/benchmark", {"image": 7}, 200, "must be an uploaded file"),
        ("call/v2/benchmark", {"image": {**PASSWD, "path": "a\0b"}}, 200, "must be an uploaded file"),
        ("call/v2/benchmark", {"nonsense": 1}, 400, "Parameter `nonsense` is not a valid"),
        (
            "call/nothing",
            {"data": []},
            404,
            "There is no endpoint 'nothing'. There are /benchmark, /published, /history",
        ),
        ("call/_forecast", {"data": []}, 404, "There is no endpoint '_forecast'."),
    ],
    ids=["deep", "no values", "checkpoint", "number", "null byte", "unknown argument", "unknown endpoint", "event"],
)
def test_a_call_that_does_not_fit_is_refused(path: str, body: Any, status: int, says: str, served: Any, capfd) -> None:
    answered, text = post(served[0], body, path)
    assert answered == status and says in text, text[:500]
    assert without_leaks(text), text[:500]
    assert "Traceback" not in capfd.readouterr().err


@pytest.fixture
def port() -> Iterator[int]:
    """Yields a port of this machine, and checks at the end that nobody connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
        assert select.select([server], [], [], 0)[0] == []


def test_a_picture_that_was_not_uploaded_is_not_opened(served: Any, port: int) -> None:
    address, runs = served
    before = len(runs)
    for path in [f"http://127.0.0.1:{port}/secret.png", "file:///etc/passwd", "/etc/passwd", "", "\x00"]:
        for field in ["path", "url"]:
            image = {field: path, "meta": {"_type": "gradio.FileData"}}
            _, text = post(address, {"image": image}, "call/v2/benchmark")
            assert "must be an uploaded file" in text
            assert without_leaks(text), text
    assert len(runs) == before


# ---- errors of the store


def test_no_folder_of_the_store_reaches_a_browser(tmp_path) -> None:
    unreadable = History(tmp_path / "secret-folder" / "history.sqlite3")
    unreadable.path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(unreadable.path)) as another_program:
        another_program.execute("PRAGMA user_version = 99")
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)), history=unreadable)
    with pytest.raises(gr.Error) as refused, errors_as_sentences():
        api.make_history(unreadable)()
    for sentence in (str(refused.value.message), str(page.run_tab.open("one", None))):
        assert "history.sqlite3" in sentence and "secret-folder" not in sentence


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (limits.Limits.file_bytes + 1, 413)])
def test_an_uploaded_file_is_limited(size: int, status: int, served: Any) -> None:
    files = {"files": ("a.png", b"x" * size)}
    assert httpx.post(f"{served[0]}gradio_api/upload", files=files, timeout=60).status_code == status


def test_on_a_space_a_picture_is_said_to_be_public(monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)))
    (note,) = [block for block in page.blocks.values() if getattr(block, "elem_id", "") == "picture-public"]
    assert note.visible and str(LONG_SIDE) in note.value


# ---- properties: the API's function and the command line with anything

NUMBERS = st.integers() | st.floats() | st.sampled_from(["4", "1e3", "٣", "", " 7 ", "0x10", "-1", "nan"])
ANYTHING = st.none() | st.booleans() | NUMBERS | st.text(max_size=30) | st.lists(st.integers(), max_size=3)


def values_of(option: Option) -> st.SearchStrategy[Any]:
    """Returns a strategy for values of the option, valid ones and any others."""
    kinds = {"switch": st.booleans(), "whole": NUMBERS, "number": NUMBERS}
    good = st.sampled_from(option.values) if option.values else kinds.get(option.kind, st.text(max_size=300))
    return good | ANYTHING


ANY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    **{name: values_of(option) for name, option in OPTIONS.items()},
    "checkpoint": st.sampled_from([c.id for c in catalog.CHECKPOINTS] + TRICKS) | ANYTHING,
    "task": st.sampled_from(TASKS) | ANYTHING,
    "image": st.none() | st.fixed_dictionaries({"path": st.text(max_size=30)}) | ANYTHING,
    "whole": st.booleans() | ANYTHING,
}


def benchmark() -> Any:
    return api.make_benchmark(FakeRunner(lambda spec, image: ok_result(spec=spec)), RunQueue())


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.fixed_dictionaries({}, optional=ANY_FIELD))
def test_the_api_answers_anything_with_a_result_or_a_sentence(arguments: dict[str, Any]) -> None:
    try:
        endpoint = benchmark()
        call = inspect.signature(endpoint).bind(SimpleNamespace(session_hash="one", headers={}), **arguments)
        call.apply_defaults()
        with errors_as_sentences():
            answer = endpoint(*call.args)
    except gr.Error as refused:
        sentence = str(refused.message)
        assert sentence.endswith((".", "?")) and len(sentence) < 600
        assert "did not expect" not in sentence
        assert without_leaks(re.sub(r"'[^']*'|\"[^\"]*\"", "", sentence))
    else:
        status = from_json(answer).status if arguments.get("whole", True) else answer["status"]
        assert status == "ok"


COMMANDS = ["run", "list", "published", "best", "script stored", "sweep", "history", "history export runs.json"]
FLAGS = [option.flag for option in OPTIONS.values()] + ["--image", "--preset", "--out", "--search", "--json"]
WORDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=20)
TYPED = [trick for trick in TRICKS if "\0" not in trick]  # which no shell passes on
GIVEN = st.sampled_from(["shapes-vit", "random", "cpu", "1", "table.csv", *TYPED]) | NUMBERS.map(str) | WORDS


@settings(max_examples=100, suppress_health_check=list(HealthCheck))  # a tenth of a second each
@given(
    st.sampled_from(COMMANDS),
    st.lists(st.tuples(st.sampled_from(FLAGS), GIVEN), max_size=3),
    st.lists(WORDS, max_size=1),
)
def test_the_command_line_answers_anything_with_a_sentence(command: str, options: list, more: list[str]) -> None:
    """Each command runs only until it would load a model."""
    output, errors = io.StringIO(), io.StringIO()
    runner = FakeRunner(lambda spec, image: ok_result(spec=spec))
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),  # for what is written
        mock.patch.dict(os.environ, {"WORTH_COMPILING_DATA": folder}),
        mock.patch("demo.runs.runner.Runner", return_value=runner),
        mock.patch("demo.cli.sweep_command.run_cells", lambda *_: (event for event in ())),
        mock.patch("demo.sweep.best_way.Search.run", lambda *_: (event for event in ())),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        History().append(ok_result(id="stored"))
        try:
            code = main([*command.split(), *(word for option in options for word in option), *more])
        except SystemExit as left:  # argparse's --help
            code = left.code
    assert code in (0, 1, 2) and "Traceback" not in errors.getvalue()
    if code == 2:
        assert output.getvalue() == ""
        assert errors.getvalue().strip().endswith((".", "?")), errors.getvalue()
