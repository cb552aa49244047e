"""Tests of the Python API on a module in memory, and of the installed wheel."""

import io
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import torch
from support.samples import measurement, ok_result
from test_architecture import ROOT

import demo
from demo import library
from demo.core.options import BadInput
from demo.core.progress import Progress
from demo.present.report import NEVER

EXAMPLE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python-api.md").read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def run_example(tmp_path_factory) -> dict[str, object]:
    """Runs the example of docs/python-api.md. Returns the variables that it sets, and as 'printed' what it printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORTH_COMPILING_DATA", str(tmp_path_factory.mktemp("data")))
        patch.setitem(sys.modules, "worth_compiling", demo)
        names: dict[str, object] = {}
        patch.setitem(names, "print", lambda *texts: names.setdefault("printed", []).append(texts))  # type: ignore[attr-defined]
        exec(EXAMPLE[0].replace("torch.randn(8, 256)", "torch.randn(8, 256), iterations=20"), names)
        return names


def test_the_example_of_the_page_prints_a_measured_answer(run_example):
    (answer,), interval, (warm,), (work,) = run_example["printed"]
    assert work == answer.result.whole_work(40_000)
    assert interval == (answer.speedup.low, answer.speedup.high)
    assert str(answer).startswith("Sequential")
    assert warm in (answer.result.break_even("warm"), None, NEVER)
    assert repr(answer).startswith("<Answer: Sequential") and len(repr(answer)) < 100
    assert answer.failure is None


@pytest.mark.parametrize(("seconds", "pays_is_known"), [(0.001, True), (0.0018, False)], ids=["faster", "open"])
def test_when_compiling_pays_is_known_as_far_as_the_verdict(seconds: float, pays_is_known: bool) -> None:
    answer = library.Answer(ok_result(compiled=measurement(seconds), control_times=measurement(0.0025)))
    assert answer.pays_after.cold == (answer.result.break_even("cold") if pays_is_known else None)
    assert answer.pays_after.warm is None


def test_measuring_leaves_the_module_of_the_caller_as_it_is(run_example):
    assert run_example["model"].training


def test_a_notebook_shows_an_answer_without_a_network(run_example):
    html = run_example["answer"]._repr_html_()
    assert "Sequential" in html
    assert not re.search(r"""(src|href)=|url\((?!#)|@import""", html)


def test_a_cell_of_a_notebook_shows_each_process_and_phase() -> None:
    stream = io.StringIO()
    line = library._NotebookLine(stream)
    for repeat, phase in ((1, "start"), (1, "start"), (2, "start"), (2, "time")):
        line.show(Progress(phase, 0.0, 1.0, repeat=repeat, repeats=2))
    shown = [text.split(" · ")[:2] for text in stream.getvalue().split("\r")[1:]]
    assert shown == [["  0 %  run 1 of 2", "start"], ["  0 %  run 2 of 2", "start"], ["  0 %  run 2 of 2", "time"]]


class Locked(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.lock = threading.Lock()


REFUSED = {
    "a module with a lock": (lambda: library.measure(Locked(), torch.ones(2)), "cannot be sent .* a function that"),
    "no module": (lambda: library.measure(3, torch.ones(2)), "Given: an object of class int"),
    "no inputs": (lambda: library.measure(torch.nn.ReLU()), "A module needs its inputs"),
    "inputs of a name": (lambda: library.measure("shapes-vit", torch.ones(2)), "brings its own. Leave them out"),
    "an option's typo": (
        lambda: library.measure("shapes-vit", mod="lite"),
        "no option 'mod' here. Did you mean 'mode'",
    ),
    "an option of a run": (lambda: library.best("shapes-vit", mode="lite"), "no option 'mode' here"),
    "an unknown checkpoint": (lambda: library.measure("shapes-vitt"), "Did you mean 'shapes-vit'"),
    "an unknown module": (lambda: library.measure("nowhere.at_all:build"), "There is no module 'nowhere.at_all'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused_in_a_sentence(case: str):
    call, words = REFUSED[case]
    with pytest.raises(BadInput, match=words):
        call()


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Returns a folder with the files that a wheel of the project installs."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def test_the_wheel_installs_one_package(installed: Path):
    names = {path.name for path in installed.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"worth_compiling"}


def test_the_wheel_runs_in_a_folder_with_a_package_of_the_same_name(installed: Path, tmp_path):
    folder = tmp_path / "a repository"
    (folder / "demo").mkdir(parents=True)
    (folder / "demo" / "__init__.py").touch()
    source = "import torch\ndef build(): return torch.nn.Linear(8, 8), torch.ones(1, 8)"
    (folder / "demo" / "models.py").write_text(source)
    (folder / "random.py").write_text("raise RuntimeError('not the standard module')")
    data = {"PYTHONPATH": str(installed), "WORTH_COMPILING_DATA": str(tmp_path / "data")}
    command = [sys.executable, "-P", "-m", "worth_compiling", "run", "--model", "demo.models:build", "--json"]
    command += ["--iterations", "20"]
    process = subprocess.run(command, cwd=folder, env=os.environ | data, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["status"] == "ok"
    assert "worth-compiling history" in process.stderr
