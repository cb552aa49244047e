"""The API over HTTP. A fake runner stands for the models."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from fake_runner import FakeRunner
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from page_support import stored
from samples import failed_result, ok_result
from search_runner import SearchRunner

from demo.core.result import RunResult
from demo.core.spec import OPTIONS, BadInput, RunSpec
from demo.store import published
from demo.store.history import History
from demo.ui import api
from demo.ui.jobs import RunQueue
from demo.ui.page import build, launch
from demo.ui.tabs import form


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Client, list[tuple[RunSpec, Path]]]]:
    """A client of the page with a fake runner, at a free port; and what the runner was asked."""
    asked: list[tuple[RunSpec, Path]] = []

    def answer(spec: RunSpec, image: Path) -> RunResult | Exception:
        asked.append((spec, image))
        if spec.batch_size == 13:
            return BadInput("Batch size 13 is unlucky. Choose another one.")
        if spec.batch_size == 14:
            return RuntimeError("secret")
        return ok_result(spec=spec)

    history = History()
    for result in (ok_result(), failed_result(), stored("detection")):
        history.append(result)
    page = build(FakeRunner(answer), history=history)
    _, address, _ = launch(page, prevent_thread_lock=True, server_port=None)
    yield Client(address, verbose=False), asked
    page.close(verbose=False)


def test_the_api_runs_the_default_and_answers_with_the_documented_json(served: Any) -> None:
    client, asked = served
    answer = client.predict(api_name="/benchmark")
    spec, image = asked[-1]
    assert RunResult.from_json(answer) == ok_result(spec=spec)
    assert answer["speedup"]["verdict"] == "faster"
    assert answer["eager"]["median_ms"] == pytest.approx(2.04)
    assert (spec.checkpoint, image) == ("shapes-vit", form.scenes()[0])


def test_the_answer_of_two_repeats_rests_on_both(served: Any) -> None:
    client, asked = served
    before = len(asked)
    answer = client.predict(repeats=2, api_name="/benchmark")
    assert len(asked) - before == len(answer["repeats"]) == 2 and answer["spec"]["repeats"] == 2
    row = client.predict(repeats=3, whole=False, api_name="/benchmark")
    assert (row["speedup_basis"], row["repeats"]) == ("repeats", 3)


def test_the_api_takes_fields_of_each_kind_and_an_uploaded_picture(served: Any) -> None:
    client, asked = served
    owl = ("google/owlvit-base-patch32", "object-detection")
    given = {"batch_size": 4, "mode": "max-autotune", "fullgraph": True, "weights": "random", "iterations": 30}
    picture = form.photographs()[0]
    client.predict(*owl, image=handle_file(str(picture)), text="a lion, a tree", **given, api_name="/benchmark")
    spec, image = asked[-1]
    assert spec == RunSpec(*owl, text=("a lion", "a tree"), **given)
    assert image.read_bytes() == picture.read_bytes()


def test_text_generation_takes_a_prompt_and_no_picture(served: Any) -> None:
    client, asked = served
    client.predict(checkpoint="shapes-gemma", prompt="A ring", tokens=8, api_name="/benchmark")
    assert asked[-1] == (RunSpec("shapes-gemma", "text-generation", prompt="A ring", tokens=8), None)


def test_without_a_picture_the_api_takes_one_that_suits_the_model_or_the_example_named(served: Any) -> None:
    client, asked = served
    for checkpoint, pictures in (("shapes-rtdetr", form.scenes()), ("facebook/detr-resnet-50", form.photographs())):
        client.predict(checkpoint=checkpoint, weights="random", api_name="/benchmark")
        assert asked[-1][1] in pictures
    for picture in (form.scenes()[-1], form.photographs()[-1]):
        client.predict(checkpoint="facebook/detr-resnet-50", example=picture.stem, api_name="/benchmark")
        assert asked[-1][1] == picture


def test_the_api_refuses_with_a_sentence(served: Any) -> None:
    client, _ = served
    for given, sentence in [
        ({"example": "../shapes-scene-1"}, "There is no example '../shapes-scene-1'. There are: shapes-scene-1, "),
        ({"example": "lion", "image": handle_file(str(form.scenes()[0]))}, "Both an image and an example"),
        ({"checkpoint": "shapes-gemma", "prompt": "A", "example": "lion"}, "text-generation sees no picture: leave"),
        ({"batch_size": 0}, "Batch size must be a whole number from 1 to"),
        ({"batch_size": 13}, "Batch size 13 is unlucky. Choose another one."),
        ({"batch_size": 14}, "an error that it did not expect"),
    ]:
        with pytest.raises(AppError, match=re.escape(sentence)) as refused:
            client.predict(**given, api_name="/benchmark")
        assert "secret" not in str(refused.value)
    for given, sentence in [
        ({"id": "nothing"}, "No stored run has the id 'nothing'"),
        ({"limit": 201}, "whole number from 1 to 200. Given: 201"),
    ]:
        with pytest.raises(AppError, match=re.escape(sentence)):
            client.predict(**given, api_name="/history")
    for given, sentence in [
        ({"minutes": 0.5}, "A search takes 1 to 60 minutes. Given: 0.5."),
        ({"minutes": "long"}, "A search takes 1 to 60 minutes. Given: long."),
        ({"goal": "cheap"}, "The goal is one of steady, soonest, traffic. Given: 'cheap'."),
        ({"calls": None}, "Calls a day are a number from 0 to"),
        ({"checkpoint": "shapes-gemma", "prompt": "A", "example": "lion"}, "text-generation sees no picture: leave"),
        ({"batch_size": 0}, "Batch size must be a whole number from 1 to"),
    ]:
        with pytest.raises(AppError, match=re.escape(sentence)):
            client.predict(**given, api_name="/best")
    with pytest.raises(AppError, match=r"no GPU 'H100'\. They have: A100, V100, T4"):
        client.predict(gpu="H100", api_name="/published")


def test_the_api_searches_for_the_best_way_and_answers_with_its_table(served: Any) -> None:
    client, asked = served
    before = len(asked)
    found = client.predict(batch_size=2, minutes=1, api_name="/best")
    assert found["complete"] and {spec.batch_size for spec, _ in asked[before:]} == {2}
    rows = {row["way"]: row for row in found["rows"]}
    assert {"eager", "default", "freezing", "package", "layers"} <= rows.keys()
    assert found["winner"] == "default" and "freezing" in found["equals"]  # all are equally fast: the simplest
    assert rows["default"]["speedup"]["ratio"] == pytest.approx(2.0, abs=0.01) and rows["eager"]["rank"] > 1
    assert "2" in found["answer"][0] and "cannot be told" in found["answer"][1]


def test_no_more_searches_go_on_than_the_queue_has_places(tmp_path: Path) -> None:
    runner = SearchRunner(History(tmp_path / "history.sqlite3"), seconds=60.0)
    best = api.best(runner, RunQueue(1), runner.history)
    request = SimpleNamespace(session_hash="one")
    going = threading.Thread(target=best, args=[request])
    going.start()
    while not runner.runs:
        time.sleep(0.01)
    with pytest.raises(gr.Error, match="1 searches are going on here already"):
        best(SimpleNamespace(session_hash="two"))
    runner.seconds = 0.0
    going.join()
    assert best(SimpleNamespace(session_hash="two"))["winner"] == "freezing"


def test_the_api_lists_the_stored_runs_newest_first_as_rows(served: Any) -> None:
    client, _ = served
    rows = client.predict(api_name="/history")
    assert [row["started_at"] for row in rows] == sorted((row["started_at"] for row in rows), reverse=True)
    assert len(rows) == 3
    found = {row["id"]: row for row in client.predict(search="image-classification", api_name="/history")}
    assert found[ok_result().id]["speedup"] == pytest.approx(2.0, abs=0.01)
    assert len(client.predict(limit=1, api_name="/history")) == 1


def test_the_api_gives_one_stored_run_whole(served: Any) -> None:
    client, _ = served
    (one,) = client.predict(id=ok_result().id, api_name="/history")
    assert RunResult.from_json(one) == ok_result()
    (same,) = client.predict(search=ok_result().id, whole=True, api_name="/history")
    assert same == one


def test_the_api_gives_published_rows_faults_and_sources(served: Any) -> None:
    given = served[0].predict(gpu="T4", subset="nightly", batch_size=16, api_name="/published")
    assert [(row["model"], row["eager_ms"]) for row in given["rows"]] == [("BeiT", 42.179), ("DETR", "OOM")]
    assert "Repeats" in given["rows"][0]["notes"][0]
    assert len(given["faults"]) == len(published.faults()) and given["sources"] and given["problems"] == []


def test_the_api_offers_its_endpoints_and_documents_their_fields(served: Any) -> None:
    described = served[0].view_api(return_format="dict")
    assert set(described["named_endpoints"]) == {"/benchmark", "/best", "/history", "/published"}
    listed = [field["parameter_name"] for field in described["named_endpoints"]["/history"]["parameters"]]
    assert listed == ["id", "search", "limit", "whole"]
    assert described["unnamed_endpoints"] == {}
    fields = {field["parameter_name"]: field for field in described["named_endpoints"]["/benchmark"]["parameters"]}
    assert set(fields) == {"checkpoint", "task", "image", "whole", "example", *OPTIONS}
    for option in OPTIONS.values():
        if option.values:
            assert fields[option.name]["type"]["enum"] == list(option.values)
