"""What a process of the app gets from it, and a worker that the app cannot use."""

from contextlib import closing

import pytest

from demo.core import catalog
from demo.core.spec import BadInput
from demo.runs import process
from demo.runs.environment import worker_environment
from demo.runs.process import WorkerDied
from demo.runs.runner import Runner
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TINY = catalog.make_spec(checkpoint="shapes-vit", task="image-classification", iterations=20, device="cpu")


def test_a_worker_that_is_never_ready_is_given_up(history: History, monkeypatch) -> None:
    monkeypatch.setattr(process, "READY_SECONDS", 1.0)
    monkeypatch.setattr(process, "EXIT_SECONDS", 0.1)
    with closing(Runner(history, worker_module="tests.endless_import")) as runner:
        with pytest.raises(WorkerDied, match="it was not ready after 1 s"):
            runner.inspect()


def test_a_worker_whose_messages_have_another_version_is_refused(history: History, monkeypatch) -> None:
    """As after the checkout was updated while its page ran."""
    monkeypatch.setenv("FAULT", "messages of another version")
    with closing(Runner(history, worker_module="tests.quick_worker")) as runner:
        with pytest.raises(BadInput, match=r"messages of version 2.*Start the program again\."):
            list(runner.run(TINY, SCENE))
    assert history.all() == []


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
