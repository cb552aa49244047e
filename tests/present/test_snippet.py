"""The program for somebody's own code: it runs as it stands, with the settings of its run."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from samples import ok_result

from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec
from demo.present.snippet import snippet

ROOT = Path(__file__).resolve().parents[2]
AFTER = {"shapes-vit": ("print(tuple(outputs.logits.shape))", "(2, 7)"), "shapes-gemma": ("print(len(written))", "12")}


@pytest.mark.parametrize("checkpoint", AFTER)
def test_the_snippet_runs_as_it_stands(checkpoint: str) -> None:
    """With the mode that compiles quickest."""
    text = checkpoint == "shapes-gemma"
    asked: dict[str, Any] = {"prompt": "The picture shows", "tokens": 12} if text else {"batch_size": 2}
    task = TEXT_GENERATION if text else "image-classification"
    result = ok_result(spec=RunSpec(checkpoint, task, device="cpu", mode="lite", **asked))
    look, told = AFTER[checkpoint]
    command = [sys.executable, "-c", f"{snippet(result)}\n{look}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == told, done.stderr


WAYS: list[dict[str, Any]] = [
    {"dtype": "tf32", "channels_last": True, "mode": "max-autotune", "fullgraph": True, "device": "cuda"},
    {"freezing": True, "threads": 2, "dynamic": "on"},
    {"scope": "layers", "mode": "lite"},
    {"compiler": "aot", "dynamic": "on"},
]


@pytest.mark.parametrize("asked", WAYS, ids=lambda asked: next(iter(asked)))
def test_the_snippet_has_the_settings_of_its_run(asked: dict[str, Any]) -> None:
    spec = dataclasses.replace(ok_result().spec, **asked)
    own = RunSpec("/home/me/mine.py:build", OWN_MODEL, **({"device": "cpu"} | asked))
    for result in (ok_result(spec=spec), ok_result(spec=own)):
        source = snippet(result)
        ast.parse(source)
        for module in ("torch", "transformers", "runpy", "os", "json"):
            assert (f"import {module}\n" in source) is bool(re.search(rf"\b{module}[.]", source)), module
        for said in ("torch.export" if spec.compiler == "aot" else f'mode="{spec.mode}"', f'"{spec.device}"'):
            assert said in source
        assert ("torch.set_num_threads(2)" in source) is (spec.threads == 2)
        assert ("freezing = True" in source) is spec.freezing
        assert ('precision("high")' in source) is (spec.dtype == "tf32")
        assert "/home/me" not in source and "TORCHINDUCTOR_CACHE_DIR" not in source  # no warm start was measured
