"""Tests of the command line as a whole: bad input, and what only a process of its own can show."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support.command_line import EXAMPLE, ROOT, RUN, python
from support.samples import ok_result

from demo.cli.main import main, parser
from demo.core import catalog, limits
from demo.core.program import LIBRARIES
from demo.store.history import FOLDER_VARIABLE, History
from demo.store.published import current_commit


def test_the_version_names_the_commit_and_the_libraries(capsys) -> None:
    assert main(["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"Worth Compiling?, commit {current_commit() or 'not known'}"
    for library in ("torch", "transformers", "gradio"):
        assert f"{library} {metadata.version(library)}" in second


@pytest.mark.parametrize("start", ["runpy.run_path('app.py', run_name='__main__')", "runpy.run_module('demo')"])
def test_on_windows_either_way_in_ends_in_one_sentence(start: str) -> None:
    """Windows is simulated by removing the modules that it lacks. Both ways to start are tried."""
    windows = "import runpy, sys; sys.platform = 'win32'; sys.modules |= dict.fromkeys(['fcntl', 'pwd', 'resource'])"
    process = subprocess.run([sys.executable, "-c", f"{windows}; {start}"], cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.count("\n") == 1 and "On Windows use WSL" in process.stderr


@pytest.mark.parametrize(
    "start", ["runpy.run_path('app.py', run_name='__main__')", "runpy.run_module('demo', run_name='__main__')"]
)
@pytest.mark.parametrize("missing", [["yaml", "PIL"], ["numpy"], ["pydantic"]], ids="-".join)
def test_without_the_libraries_of_every_command_all_missing_ones_are_named(missing: list[str], start: str) -> None:
    """`find_spec` finds no module for a None in `sys.modules`. Both ways to start are tried."""
    hidden = f"import runpy, sys; sys.modules |= dict.fromkeys({missing})"
    process = subprocess.run([sys.executable, "-c", f"{hidden}; {start}"], cwd=ROOT, capture_output=True, text=True)
    names = ", ".join(LIBRARIES[name] for name in sorted(missing))
    sentence = f"Not installed: {names}. Install what is missing: pip install -r requirements.txt\n"
    assert (process.returncode, process.stdout, process.stderr) == (1, "", sentence)


def test_a_port_that_is_none_is_one_sentence_and_exit_2(monkeypatch, capsys) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("GRADIO_SERVER_PORT", "99999")
    assert main(["serve"]) == 2
    assert "GRADIO_SERVER_PORT must be a whole number from 1 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*RUN[:3], "--image", "no-such.png"], "'no-such.png' cannot be opened"),
        (["run", "--task", "object-detection"], "No checkpoint"),
        ([*RUN, "--batch-size", "many"], "many"),
        ([*RUN, "--frezing"], "arguments: --frezing. Did you mean '--freezing'? See python -m demo run --help."),
        ([*RUN, "-x"], "Unrecognized arguments: -x. See python -m demo run --help."),
        ([*RUN, "--batch-size", "1", "--batch-size", "4"], "--batch-size: is given twice. Give it once."),
        (["published", "--gpu", "T4", "--gpu", "A100"], "--gpu: is given twice"),
        (["swep"], "Did you mean 'sweep'? See python -m demo --help."),
        (["sweep", "--preset", "publishd"], "Did you mean 'published'?"),
        (["history", "exprt", "runs.csv"], "Did you mean 'export'?"),
        (["history", "delte"], "Did you mean 'delete'?"),
        (["published", "--subset", "nightlies"], "Did you mean 'nightly'?"),
        ([*RUN, "--trace", f"/{'x' * 300}/t"], "does not exist"),
        ([*RUN, "--trace", "t", "--profile", "off"], "leave out --profile off"),
        ([*RUN, "--package", "p", "--scope", "layers"], "choose scope model"),
        (["run", "--model", f"{__file__}:main", "--image", str(EXAMPLE)], "leave out --image"),
        (["shapes", "missing.txt"], "The log 'missing.txt' cannot be read: No such file or directory."),
        (["best", "--minutes", "ten"], "A search takes 1 to 60 minutes. Given: ten."),
        *(
            ([*RUN, f"--at-least={bound}"], f"a number above 0. Given: {bound!r}")
            for bound in ("fast", "0", "-1", "nan")
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(fake: Any, capsys, arguments: list[str], words: str) -> None:
    runner = fake(ok_result())
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and words in err and err.endswith((".\n", "?\n"))
    assert runner.runs == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("WORTH_COMPILING_FILE_MB", "unset this environment variable."),
        ("WORTH_COMPILING_TIMEOUTS", "Did you mean 'WORTH_COMPILING_TIMEOUT'?"),
        ("WORTH_COMPILING_BATCHSIZE", "Did you mean 'WORTH_COMPILING_BATCH'?"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused(name: str, meant: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv(name, "1")
    limits.current.cache_clear()
    assert main(["list"]) == 2
    assert capsys.readouterr().err.endswith(f"{meant}\n")


def test_the_bare_command_has_an_example_that_can_be_parsed(capsys) -> None:
    assert main([]) == 0
    example = capsys.readouterr().out.splitlines()[-1].partition("python -m demo ")[2]
    assert parser().parse_args(example.split()).command


def test_list_prints_every_checkpoint_of_the_catalogue(capsys) -> None:
    ids = [checkpoint.id for checkpoint in catalog.CHECKPOINTS]
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ids
    assert main(["list", "--json"]) == 0
    assert [entry["id"] for entry in json.loads(capsys.readouterr().out)] == ids


def test_on_a_space_the_app_hides_its_environment_from_workers(monkeypatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setenv("SPACE_ID", "someone/space")
    monkeypatch.setattr("demo.ui.server.block_proc_access", Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        main(["serve"])


def test_a_command_imports_neither_torch_nor_the_page(data_folder: Path) -> None:
    code = """
import sys
from demo.cli.main import main
assert main(["history", sys.argv[1]]) == 0
print({name.split(".")[0] for name in sys.modules} & {"torch", "transformers", "gradio", "plotly"})
"""
    History().append(ok_result())
    assert python("-c", code, ok_result().id).stdout.splitlines()[-1] == "set()"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "demo", "list", "--json"]
    process = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, "")


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-"])
def test_a_stream_that_is_closed_changes_no_result(closed: str, data_folder: Path) -> None:
    """Progress does not go to standard output instead, and no pipe of a worker becomes a standard stream."""
    shell = f'exec "$0" -m tests.support.quick_sweep run --json {closed}'
    process = subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, capture_output=True, timeout=120)
    assert process.returncode == 0 and json.loads(process.stdout)["status"] == "ok"


def test_a_full_disk_behind_standard_output_is_a_sentence(data_folder: Path) -> None:
    shell = 'exec "$0" -m demo list >/dev/full'
    process = subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout) == (1, "")
    assert "No space left on device. Make room" in process.stderr and "Traceback" not in process.stderr


def test_a_full_disk_behind_standard_error_ends_no_command(data_folder: Path) -> None:
    shell = 'exec "$0" -m demo script nothing 2>/dev/full'
    assert subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, timeout=60).returncode == 2
    History().append(ok_result(id="one"))
    shell = 'exec "$0" -m demo history export "$1" 2>/dev/full'
    table = data_folder / "table.csv"
    assert subprocess.run(["sh", "-c", shell, sys.executable, table], cwd=ROOT, timeout=60).returncode == 0
    assert table.read_text().count("\n") == 2


def test_a_torch_that_cannot_be_imported_is_a_sentence(data_folder, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no libcudart')")
    process = python("-m", "demo", "sweep", "--preset", "smoke", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert process.returncode == 1 and "Traceback" not in process.stderr
    assert "answer: ImportError: no libcudart. python -m demo doctor says" in process.stderr


def test_output_is_utf_8_whatever_the_locale(data_folder: Path) -> None:
    History().append(ok_result())
    environment = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", FOLDER_VARIABLE: str(data_folder)}
    assert "2.00× faster" in python("-m", "demo", "history", env=environment, encoding="utf-8").stdout
