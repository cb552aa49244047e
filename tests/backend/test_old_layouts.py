"""The guide's twelve, shrunken, in the layout in which the Hub holds them: loaded from a Hub on loopback.

`tools/old_layouts.py` made `tests/backend/old_layouts` with transformers 4.57.3 and says what of it is from memory.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from demo.backend import models, predictions
from demo.core import catalog
from tests import hub_stub
from tools import old_layouts

LAYOUTS = Path(__file__).parent / "old_layouts"
TWELVE = [checkpoint.id for checkpoint in catalog.PUBLISHED]
TIMM = "microsoft/conditional-detr-resnet-50"


def layout(checkpoint: str) -> dict[str, Any]:
    return json.loads((LAYOUTS / f"{checkpoint.replace('/', '--')}.json").read_text())


def written(checkpoint: str, folder: Path) -> Path:
    """A repository as the Hub holds it."""
    published = layout(checkpoint)
    folder.mkdir(parents=True)
    for name in ("config", "preprocessor_config"):
        (folder / f"{name}.json").write_text(json.dumps(published[name]))
    weights = old_layouts.weights(published["weights"])
    if published["file"] == "model.safetensors":
        save_file(weights, folder / published["file"], metadata={"format": "pt"})
    else:
        torch.save(weights, folder / published["file"])
    if catalog.find(checkpoint).takes_text:
        (folder / "vocab.json").write_text(json.dumps(old_layouts.VOCABULARY))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        (folder / "special_tokens_map.json").write_text(json.dumps(special))
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "CLIPTokenizer", "do_lower_case": True, "model_max_length": 16, **special})
        )
    return folder


def shrunken_assets(folder: Path) -> Path:
    """The project's config for the checkpoint that is published with a timm backbone, as small as its weights."""
    shipped = json.loads((catalog.config_folder(catalog.find(TIMM)) / "config.json").read_text())
    small = layout(TIMM)["config"]
    for name in shipped.keys() & small.keys() - {"backbone_config", "backbone"}:
        shipped[name] = small[name]
    shipped["backbone_config"] |= {"depths": [1] * 4, "hidden_sizes": [16, 16, 32, 32], "embedding_size": 16}
    place = folder / "configs" / TIMM.replace("/", "--")
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(shipped))
    return folder


def answer(checkpoint: str) -> dict[str, Any]:
    text = (old_layouts.QUERY,) if catalog.find(checkpoint).takes_text else ()
    loaded = models.load(catalog.make_spec(checkpoint, text=text), torch.device("cpu"))
    assert loaded.warnings == []
    with torch.no_grad():
        outputs = loaded.model(**predictions.prepare(loaded, old_layouts.picture(), text))
    kept = (name for name in old_layouts.OUTPUTS if name in outputs)
    return {name: outputs[name].flatten()[: old_layouts.KEPT].tolist() for name in kept}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The twelve on a Hub, and the project's config for one of them, as small as its weights."""
    folder = tmp_path_factory.mktemp("hub")
    repositories = {id: written(id, folder / id) for id in TWELVE}
    with (
        pytest.MonkeyPatch.context() as patch,
        hub_stub.serve(repositories) as endpoint,
        hub_stub.taken_for_the_hub(endpoint, folder / "cache"),
    ):
        patch.setattr(catalog, "ASSETS", shrunken_assets(folder / "assets"))
        yield


@pytest.mark.parametrize("checkpoint", TWELVE)
def test_each_of_the_twelve_answers_as_the_old_release_does_and_warns_of_nothing(hub: None, checkpoint: str) -> None:
    found, expected = answer(checkpoint), layout(checkpoint)["outputs"]
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        assert found[name] == pytest.approx(numbers, abs=5e-4), name  # Mask2Former's attention has a threshold
