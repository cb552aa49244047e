"""What the files of a checkpoint that somebody named may ask of this machine."""

from types import SimpleNamespace

import huggingface_hub
import pytest

from demo.backend import model_files
from demo.backend.model_files import Source
from demo.core.spec import BadInput


def look(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int]) -> None:
    """Lets the Hub tell these sizes of files."""
    files = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    monkeypatch.setattr(huggingface_hub, "model_info", lambda name, **_: SimpleNamespace(siblings=files))
    model_files.refuse_large_files(Source("some/model", "some/model", {}, {}))


def test_files_beyond_a_limit_are_refused_with_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = "The weights of some/model have {}, the limit here is 16.0 GB"
    for sizes, says in [
        ({"model.safetensors": 50_000_000_000}, weights.format("50.0 GB")),
        ({"one.safetensors": 9_000_000_000, "named-otherwise.safetensors": 9_000_000_000}, weights.format("18.0 GB")),
        ({"config.json": 60_000_000}, "The file config.json of some/model has 60.0 MB, the limit is 50.0 MB"),
        ({"config.1.0.0.json": 50_000_001}, "The file config.1.0.0.json of"),
        ({"merges.txt": 60_000_000}, "The file merges.txt of"),
        ({"chat_template.jinja": 60_000_000}, "The file chat_template.jinja of"),
    ]:
        with pytest.raises(BadInput) as refused:
            look(monkeypatch, sizes)
        assert says in str(refused.value)
    look(monkeypatch, {"a.safetensors": 16_000_000_000, "config.json": 50_000_000, "pytorch_model.bin": 10**12})
