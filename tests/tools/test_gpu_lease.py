"""Tests of the script that measures on a lent GPU: its two calls, their time limits, and what the machine must have."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools import gpu_evidence, gpu_lease
from tools.gpu_lease import CALL_SECONDS, END_SECONDS, Step

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 100.0
"""Seconds that the start of a machine and the way of its files take of a quarter of an hour."""
CHILD = """
import importlib.util, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"there is no {name} here")

sys.meta_path.insert(0, Missing())
from tools import gpu_lease
assert "torch" not in sys.modules  # its import takes seconds of the lease
import demo.backend.__main__, demo.cli.main, demo.cli.run_command, demo.cli.terminal, demo.runs.runner
from tools import evidence_tables, gpu_evidence, gpu_package_crash, gpu_plain_loop
spec = importlib.util.spec_from_file_location("test_on_a_gpu", "tests/gpu/test_on_a_gpu.py")
spec.loader.exec_module(importlib.util.module_from_spec(spec))
print("imported")
"""


def test_nothing_that_runs_on_a_lent_gpu_needs_the_page() -> None:
    """A lent machine has torch, transformers and what docs/gpu-evidence.md names, but no gradio and no pytest."""
    page = {"gradio", "gradio_client", "fastapi", "starlette", "uvicorn", "plotly", "ray", "spaces", "pytest"}
    code = CHILD.replace("MISSING", repr(page))
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.stdout == "imported\n", process.stderr


def test_both_calls_fit_into_a_quarter_of_an_hour() -> None:
    assert sum(CALL_SECONDS.values()) + START_SECONDS < 15 * 60 and max(CALL_SECONDS.values()) <= 560


def test_the_table_gets_most_of_the_first_call(tmp_path) -> None:
    *before, table = gpu_lease.steps(1, tmp_path, "abc", quick=False)
    assert CALL_SECONDS[1] - sum(step.seconds for step in before) >= 440 and table.name == "table"
    assert before[1].variables == {"TORCHINDUCTOR_GRAPH_PARTITION": "0"}


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("call", CALL_SECONDS)
def test_every_step_of_the_evidence_exists(call: int, quick: bool, tmp_path) -> None:
    evidence = [step for step in gpu_lease.steps(call, tmp_path, "abc", quick) if step.module == "tools.gpu_evidence"]
    assert evidence and gpu_lease.REPEATED == gpu_evidence.REPEATED
    for step in evidence:
        options = gpu_evidence._options(step.arguments)
        assert options.quick == quick and options.commit == "abc" and options.folder == tmp_path
        assert {*options.steps} <= {"machine", *gpu_evidence.steps(quick, gpu_evidence.GUIDES)}


def test_a_step_that_hangs_costs_only_its_own_time(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "hangs.py").write_text("import time; print('begins', flush=True); time.sleep(60)")
    (tmp_path / "works.py").write_text("import sys; print('says', *sys.argv[1:])")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    chosen = [Step("first", 2.0, "hangs"), Step("second", 9.0, "works", ("hello",)), Step("third", 9.0, "missing")]
    gpu_lease.run_call(chosen, 100.0, tmp_path / "lease.txt")
    said = capsys.readouterr().out
    assert "begins\n== first: stopped after 2 s" in said and "says hello\n== second: exit 0" in said
    assert "No module named missing\n== third: exit 1" in said
    assert (tmp_path / "lease.txt").read_text().startswith("begins\nsays hello\n")


def test_a_step_leaves_no_process_behind(tmp_path, monkeypatch) -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"
    (tmp_path / "starts.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert gpu_lease.run_step(Step("first", 9.0, "starts"), 9.0, tmp_path / "lease.txt") == "exit 0"
    process = Path("/proc", (tmp_path / "lease.txt").read_text().strip(), "stat")
    for _ in range(50):  # a moment passes until the signal has arrived, and a killed process may stay as a zombie
        if not process.exists() or process.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the process that the step started still runs")


def test_a_call_without_time_leaves_steps_out(tmp_path, capsys) -> None:
    gpu_lease.run_call([Step("late", 9.0, "this")], gpu_lease.LEAST_SECONDS + END_SECONDS - 1, tmp_path / "lease.txt")
    assert "late: left out" in capsys.readouterr().out and not (tmp_path / "lease.txt").exists()
