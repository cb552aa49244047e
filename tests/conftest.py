"""Settings and fixtures for all tests: their order, an empty history, and an empty folder of measured tables."""

import gc
import importlib
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A shell starts what it puts into the background with SIGINT ignored, and every child inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# More processes than cores run the tests. Two threads of a model would wait for each other's core, and a run would take
# as many as are free just then, which differs from run to run, and so do the kernels compiled for it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# As in a worker (demo/runs/environment.py): a thread whose core another process of the tests has is not waited for
# by spinning.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")

# Else inductor compiles a program for each set of vector instructions, in every process with an empty cache: seconds.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# The page's uploads of these tests: an app of the same user that runs meanwhile has its own, and tests remove old ones.
_uploads = tempfile.TemporaryDirectory(prefix="uploads-of-tests-", ignore_cleanup_errors=True)
os.environ["GRADIO_TEMP_DIR"] = os.path.realpath(_uploads.name)

# gradio looks for a free port from here on: each process of the tests has a hundred of its own.
os.environ["GRADIO_SERVER_PORT"] = str(7860 + 100 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]))

# A busy machine is no fault of the code: no made-up example has a deadline.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture
def history(tmp_path) -> Any:
    """Returns an empty history, whose folder does not exist yet."""
    from demo.store.history import History  # brings numpy, which reads the settings above

    return History(tmp_path / "data" / "history.sqlite3")


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """Replaces the folder of this project's own measured tables by an empty one, and returns it."""
    monkeypatch.setattr("demo.store.published.MEASURED_FOLDER", tmp_path)
    return tmp_path


FIRST = (
    # a cold compile of each bundled checkpoint: later tests find them in the cache
    "tests/end_to_end/test_segmenter.py",
    "tests/end_to_end/test_text_model.py",
    "tests/end_to_end/",
    "tests/browser/test_tabs_in_chromium.py",
    "tests/browser/",
    "tests/test_faults.py",
    "tests/test_hostile.py",
    "tests/sweep/",
    "tests/backend/",
    "tests/runs/",
    "tests/cli/",
    "tests/test_",
    "tests/tools/",
)
"""Test files that take a minute or more. They run first, the longest first: at the end, one would leave other cores
idle."""


def _place(item: pytest.Item) -> int:
    return next((place for place, name in enumerate(FIRST) if item.nodeid.startswith(name)), len(FIRST))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # this process only hands out the tests
    # What is imported stays. Without this, a seventh of the time of the imports goes into looking for garbage in it.
    gc.disable()
    # The keys of inductor's cache name the first module that holds `torch`. In a worker that is one of torch's own, and
    # so it must be here, or a process that a test starts does not find what the test has compiled.
    importlib.import_module("torch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def pytest_collection_finish() -> None:
    gc.freeze()  # later searches for garbage pass over what was imported
    gc.enable()
