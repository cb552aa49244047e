"""Another environment's Python: what cannot run the worker is refused in one sentence, and what can is told apart."""

import os
import sys
from contextlib import closing

import pytest
from scripted_runner import made_python

from demo.core import catalog
from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.runs import process
from demo.runs.environment import other_python, worker_environment
from demo.runs.runner import Runner
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TINY = catalog.make_spec(checkpoint="shapes-vit", task="image-classification", iterations=20, device="cpu")
QUICK = "tests.quick_worker"


def refusal(path: str, history: History, module: str = "demo.backend") -> str:
    """The sentence with which it is refused; nothing is stored by then."""
    with pytest.raises(BadInput) as refused:
        with closing(Runner(history, worker_module=module, interpreter=other_python(path))) as runner:
            runner.inspect()
    assert history.all() == []
    told = str(refused.value)
    assert "\n" not in told and "Traceback" not in told
    assert told.startswith(f"--python {path} cannot run the worker: ") and "requirements.txt" in told
    return told


@pytest.mark.parametrize(
    ("module", "code", "told"),
    [
        ("torch", 'raise ModuleNotFoundError("No torch")', "ModuleNotFoundError: No torch."),
        ("sitecustomize", "import sys\nsys.version_info = (3, 9, 1)", "Python 3.11 or newer is needed, and this is"),
        ("torch", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "it was killed by signal SIGSEGV."),
    ],
    ids=["no library", "too old", "a crash"],
)
def test_an_environment_that_cannot_run_the_worker_is_refused_with_the_reason(
    module: str, code: str, told: str, tmp_path, history: History
) -> None:
    assert told in refusal(made_python(tmp_path / "venv", **{module: code}), history)


def test_an_environment_that_is_never_ready_is_given_up(tmp_path, history: History, monkeypatch) -> None:
    monkeypatch.setattr(process, "READY_SECONDS", 1.0)
    monkeypatch.setattr("demo.runs.process.EXIT_SECONDS", 0.1)
    endless = made_python(tmp_path / "venv", torch="import time\ntime.sleep(600)")
    assert "it was not ready after 1 s." in refusal(endless, history)


def test_messages_of_another_version_are_refused_with_both_versions_and_nothing_is_stored(
    tmp_path, history: History, monkeypatch
) -> None:
    """Also those of the own worker, as after the checkout was updated while its page ran."""
    monkeypatch.setenv("FAULT", "messages of another version")
    told = refusal(made_python(tmp_path / "venv"), history, QUICK)
    assert "sends messages of version 2, and this program reads version 1." in told
    with pytest.raises(BadInput, match=r"messages of version 2.*Start the program again\."):
        list(Runner(history, worker_module=QUICK).run(TINY, SCENE))
    assert history.all() == []


def test_what_is_no_interpreter_is_refused(tmp_path, history: History) -> None:
    text, text_that_starts = tmp_path / "notes", tmp_path / "program"
    for file in (text, text_that_starts):
        file.write_bytes(b"\x00no program")
    text_that_starts.chmod(0o755)
    assert "No such file" in refusal(str(tmp_path / "nowhere"), history)
    assert "Permission denied" in refusal(str(tmp_path), history)
    assert "Permission denied" in refusal(str(text), history)
    assert "Exec format error" in refusal(str(text_that_starts), history)
    assert "it ended with exit code 0" in refusal("/bin/true", history)


def test_its_results_say_where_they_were_run_and_those_of_two_environments_are_not_pooled(
    tmp_path, history: History
) -> None:
    results: list[RunResult] = []
    old, new = (made_python(tmp_path / name) for name in ("old", "new"))
    for program in (old, new, old):
        other = other_python(program)
        with closing(Runner(history, worker_module=QUICK, interpreter=other)) as runner:
            assert runner.inspect().interpreter == other.label
            *_, result = runner.run(TINY, SCENE)
        results.append(result)
    labels = [one.environment.interpreter for one in results]
    assert labels[0] == labels[2] != labels[1] and labels[1].startswith("new-")
    assert [len(one.as_processes()) for one in results] == [1, 1, 2]
    assert history.get(results[1].id).environment.interpreter == labels[1]
    with closing(Runner(history, worker_module=QUICK)) as runner:
        *_, own = runner.run(TINY, SCENE)
    assert own.environment.interpreter is None and len(own.as_processes()) == 1


def test_a_run_that_crashes_there_is_a_result_with_its_versions(tmp_path, history: History, monkeypatch) -> None:
    monkeypatch.setenv("FAULT", "exit code 3")
    other = other_python(made_python(tmp_path / "venv"))
    with closing(Runner(history, worker_module=QUICK, interpreter=other)) as runner:
        machine = runner.inspect()
        *_, result = runner.run(TINY, SCENE)
    stored = history.get(result.id)
    assert stored.status == "crashed"
    assert (stored.environment.torch, stored.environment.interpreter) == (machine.torch, machine.interpreter)


def test_two_environments_share_no_compile_cache_and_no_label(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/cache")
    others = [other_python(made_python(tmp_path / name)) for name in ("a/.venv", "b/.venv")]
    assert all(one.label.startswith(".venv-") for one in others)
    caches = [worker_environment("/tmp", one)["TORCHINDUCTOR_CACHE_DIR"] for one in (None, *others)]
    assert len(set(caches)) == 3 and caches[0] == "/cache"
    assert {os.path.dirname(one) for one in caches[1:]} == {"/cache"}
    assert other_python(sys.executable) is None


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("TORCH_LOGS", True),
        ("TORCHINDUCTOR_CACHE_DIR", True),
        ("PYTORCH_CUDA_ALLOC_CONF", True),
        ("TRITON_CACHE_DIR", True),
        ("TORCH_BUCKET_URL", False),
        ("PYTORCH_MIRROR", False),
        ("TRITON_SERVER_ADDRESS", False),
        ("TORCHINDUCTOR_REDIS_URL", False),
        ("CUDA_TORCH_MIRROR", False),
        ("MY_DYNAMO_TABLE", False),
    ],
)
def test_on_a_space_a_worker_gets_only_listed_variables_of_torch(name: str, passed: bool, monkeypatch) -> None:
    """torch writes the values of all that it gets into the compile cache (`_dynamo.debug_utils`)."""
    monkeypatch.setenv(name, "a value")
    assert name in worker_environment("/tmp")
    monkeypatch.setenv("SPACE_ID", "someone/space")
    assert (name in worker_environment("/tmp")) == passed
