"""Tests that a new task needs one file in each process: a copy of the program gets depth estimation, and runs it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from transformers import DPTConfig, DPTForDepthEstimation, DPTImageProcessorPil

ROOT = Path(__file__).resolve().parent.parent
SCENE = ROOT / "assets" / "examples" / "shapes-scene-1.png"
TASK = '''
"""Depth estimation: how near each pixel is."""

from dataclasses import dataclass

from demo.core import format as fmt
from demo.core.outputs import Predictions
from demo.tasks.task import Task


@dataclass(frozen=True)
class Depth(Predictions):
    rows: tuple[float, ...] = ()
    """The mean of each row of pixels."""

    def lines(self) -> list[str]:
        return [f"{min(self.rows):.3g} to {max(self.rows):.3g} deep"]


def agreement(eager: Depth, compiled: Depth) -> dict[str, float]:
    largest = max(abs(one - other) for one, other in zip(eager.rows, compiled.rows, strict=True))
    return {"depth_difference": largest / max(eager.rows)}


def difference(reference: Depth, other: Depth) -> str:
    apart = agreement(reference, other)["depth_difference"]
    return f"is {fmt.percent(apart)} deeper or flatter than plain eager" if apart > 0.05 else ""


TASK = Task(
    "depth-estimation",
    "Depth",
    ("AutoModelForDepthEstimation",),
    agreement,
    difference,
    shares={"depth_difference": ("depths differ by at most {share}", 0.0)},
    predictions=Depth,
)
'''
WORKER = """
from demo.backend.picture_workload import PictureWorkload
from demo.tasks.depth_estimation import Depth


class DepthEstimation(PictureWorkload):
    outputs_read = ("predicted_depth",)

    def decode(self, outputs):
        return Depth(rows=tuple(outputs.predicted_depth[0].mean(1).tolist()))


load = DepthEstimation.load
"""
CHECKS = """
from support.fake_runner import FakeRunner
from demo.cli import terminal
from demo.core.result_json import from_json, to_json
from demo.present import markdown
from demo.present.report import Report
from demo.present.script import script
from demo.store import export
from demo.store.history import History
from demo.sweep import best_table
from demo.ui.works import result_or_error
from demo.ui.page import Page
from demo.ui.tabs import form, links

NAME = "depth-estimation"
(result,) = History().all()
assert (result.status, result.spec.task, result.parity.verdict) == ("ok", NAME, "match")
assert abs(result.parity.task["depth_difference"]) < 1e-3
assert all(len(seen.rows) == 16 and max(seen.rows) > min(seen.rows) for seen in result.predictions.values())
assert from_json(to_json(result)) == result

page = Page(FakeRunner(lambda spec, image: result))
fields = page.run_tab.form.inputs
assert ("Depth", NAME) in fields["task"].choices and form.first(NAME) is None
values = {name: field.value for name, field in fields.items() if name != "image"}
assert form.read_spec(values | {"task": NAME, "checkpoint": "someone/depth"}).task == NAME
assert links.spec_of({"task": NAME, "checkpoint": "someone/depth"}, "shapes-vit").task == NAME
assert links.fill_form(page.run_tab.form, result.spec)[fields["task"]]["value"] == NAME
without_checkpoint = str(result_or_error(lambda: links.spec_of({"task": NAME}, "shapes-vit")))
assert without_checkpoint.endswith("For depth-estimation there are: none."), without_checkpoint

assert "transformers.AutoModelForDepthEstimation" in script(Report(result))
assert "depths differ by at most" in markdown.of_run(Report(result))
assert export.row(result)["task"] == NAME
assert best_table.why_out(result, result) == ""
report = terminal.in_full(Report(result))
assert report.count(" deep") == 2 and "Eager and compiled agree: depths differ by at most" in report
"""


def test_a_new_task_is_one_file_in_each_process(tmp_path) -> None:
    """Runs the new task from the command line with a small random model, and then the code in `CHECKS`."""
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    registry = tmp_path / "demo" / "tasks" / "registry.py"
    registry.write_text(
        registry.read_text("utf-8").replace('"own_model")', '"own_model", "depth_estimation")'), "utf-8"
    )
    (tmp_path / "demo" / "tasks" / "depth_estimation.py").write_text(TASK, "utf-8")
    (tmp_path / "demo" / "backend" / "tasks" / "depth_estimation.py").write_text(WORKER, "utf-8")
    (tmp_path / "checks.py").write_text(CHECKS, "utf-8")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    neck = {"backbone_out_indices": [0], "neck_hidden_sizes": [8], "fusion_hidden_size": 8}
    config = DPTConfig(**sizes, **neck, reassemble_factors=[2], image_size=32, patch_size=16, initializer_range=0.3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        DPTForDepthEstimation(config).save_pretrained(tmp_path / "depth")
    DPTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "depth")
    paths = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}", "WORTH_COMPILING_DATA": str(tmp_path / "data")}
    run = ["-m", "demo", "run", "--checkpoint", "./depth", "--task", "depth-estimation", "--image", str(SCENE)]
    options = {"cwd": tmp_path, "env": os.environ | paths, "capture_output": True, "text": True, "timeout": 300}
    for program in ([*run, "--iterations", "10", "--device", "cpu"], ["checks.py"]):
        process = subprocess.run([sys.executable, *program], **options)
        assert process.returncode == 0, process.stderr[-3000:]
