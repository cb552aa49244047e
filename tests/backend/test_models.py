"""Checkpoints from folders, from a Hub (a stub on loopback) and from nowhere: loaded, or refused in a sentence."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    CLIPTokenizer,
    OwlViTConfig,
    OwlViTForObjectDetection,
    OwlViTImageProcessorPil,
    PvtConfig,
    PvtForImageClassification,
    PvtImageProcessorPil,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTImageProcessorPil,
    ViTModel,
)

from demo.backend import models
from demo.core import catalog
from demo.core.result import BadInput, RunSpec
from tests import hub_stub

VIT = catalog.ASSETS / "checkpoints" / "shapes-vit"
CLASSIFY, DETECT = "image-classification", "object-detection"


def load_many(home: Path, endpoint: str, *named: str, weights: str = "pretrained") -> dict[str, str]:
    environment = {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "PYTHONPATH": os.getcwd(),
    }
    command = [sys.executable, "-m", "tests.load_many", weights, *named]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What loading says of each repository of the stub."""
    folder = tmp_path_factory.mktemp("repositories")
    repositories = {"stub/good": VIT}

    def copied(name: str) -> Path:
        repositories[f"stub/{name}"] = folder / name
        return shutil.copytree(VIT, folder / name)

    pickled = copied("pickle")
    (pickled / "model.safetensors").unlink()
    torch.save({}, pickled / "pytorch_model.bin")

    damaged = copied("damaged") / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:1000])

    code = copied("code") / "config.json"
    config = json.loads(code.read_text())
    config |= {"model_type": "made-up", "auto_map": {"AutoConfig": "code.MadeUp", "AutoModel": "code.MadeUp"}}
    code.write_text(json.dumps(config))

    (copied("blind") / "preprocessor_config.json").unlink()

    headless = folder / "headless"
    ViTModel(
        ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    ).save_pretrained(headless)
    ViTImageProcessorPil().save_pretrained(headless)
    repositories["stub/headless"] = headless

    # A ResNet classifier saved under the name that asks for what the file lacks: its head.
    partial = folder / "partial"
    resnet = ResNetForImageClassification(
        ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], num_labels=3)
    )
    resnet.save_pretrained(partial, state_dict={k: v for k, v in resnet.state_dict().items() if "classifier" not in k})
    ViTImageProcessorPil().save_pretrained(partial)
    repositories["stub/partial"] = partial

    ids = [*repositories, *hub_stub.FAILURES]
    home = tmp_path_factory.mktemp("home")
    with hub_stub.serve(repositories) as endpoint:
        told = load_many(home, endpoint, *(f"{CLASSIFY}={name}" for name in ids))
        told |= {f"detect {k}": v for k, v in load_many(home, endpoint, f"{DETECT}=stub/good").items()}
    gone = load_many(
        home, endpoint, f"{CLASSIFY}=stub/good", f"{CLASSIFY}=stub/never", f"{CLASSIFY}=microsoft/resnet-50"
    )
    told |= {f"offline {k}": v for k, v in gone.items()}
    random = load_many(home, endpoint, f"{CLASSIFY}=microsoft/resnet-50", weights="random")
    told |= {f"offline random {k}": v for k, v in random.items()}
    return told


@pytest.mark.parametrize(
    ("case", "begins", "says"),
    [
        ("stub/good", "loaded: ViTForImageClassification ViTImageProcessorPil", ""),
        ("stub/pickle", "refused", "no safetensors"),
        ("stub/damaged", "refused", "damaged"),
        ("stub/code", "refused", "Python code of its own"),
        ("stub/blind", "refused", "image processor"),
        ("stub/headless", "refused", "is a ViTModel, which does not do image classification"),
        ("stub/partial", "loaded: ResNetForImageClassification", "initialised at random"),
        ("stub/missing", "refused", "was not found on the Hub"),
        ("stub/private", "refused", "was not found on the Hub, or is private"),
        ("stub/gated", "refused", "gated"),
        ("stub/busy", "refused", "429"),
        ("stub/broken", "refused", "500"),
        ("detect stub/good", "refused", "does not do object detection"),
        ("offline stub/good", "loaded: ViTForImageClassification", ""),
        ("offline stub/never", "refused", "cannot be reached"),
        ("offline microsoft/resnet-50", "refused", "weights: random"),
        ("offline random microsoft/resnet-50", "loaded: ResNetForImageClassification", ""),
    ],
)
def test_each_repository_is_loaded_or_refused_in_a_sentence(answers: dict[str, str], case: str, begins: str, says: str):
    assert answers[case].startswith(begins), answers[case]
    assert says in answers[case]
    assert "Traceback" not in answers[case] and len(answers[case]) < 500


def test_a_folder_without_a_config_is_refused(tmp_path: Path):
    told = load_many(tmp_path, "http://127.0.0.1:9", f"{CLASSIFY}={tmp_path}")
    assert "holds no config.json" in told[str(tmp_path)]
    assert str(tmp_path.parent) not in told[str(tmp_path)].removeprefix("refused")


def changed(folder: Path, name: str, **entries: object) -> str:
    """A copy of the bundled classifier with these entries in one of its JSON files."""
    shutil.copytree(VIT, folder / "model")
    file = folder / "model" / name
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))
    return str(folder / "model")


def loaded(folder: str) -> models.Loaded:
    return models.load(RunSpec(folder, CLASSIFY), torch.device("cpu"))


@pytest.mark.parametrize(
    ("name", "entries", "says"),
    [
        ("config.json", {"hidden_act": ["gelu"]}, "expected str, got list .* Choose another checkpoint."),
        ("config.json", {"num_attention_heads": 0}, "zero. Choose another checkpoint."),
        ("config.json", {"id2label": {"0": "one", "1": "two"}}, "have other shapes than its config says"),
        ("preprocessor_config.json", {"size": {"height": 64}}, "size must have one of"),
        ("preprocessor_config.json", {"size": "64"}, "Could not convert size input to size dict: 64"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_to_do(name: str, entries: dict, says: str, tmp_path: Path):
    with pytest.raises(BadInput, match=says) as refused:
        loaded(changed(tmp_path, name, **entries))
    assert "package" not in str(refused.value) and "`" not in str(refused.value)
    assert "checkpoint" in str(refused.value) and str(refused.value).endswith(".")


def test_attention_is_the_class_s_or_the_run_s_and_never_the_config_s(tmp_path: Path):
    found = loaded(changed(tmp_path, "config.json", _attn_implementation="somebody/kernel"))
    assert found.model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("words", [None, ["a", "cat"]])
def test_a_text_model_without_a_tokenizer_is_refused(words: list[str] | None, tmp_path: Path):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = OwlViTConfig(text_config={**sizes, "vocab_size": 9}, vision_config=sizes | {"image_size": 32})
    OwlViTForObjectDetection(config).save_pretrained(tmp_path)
    OwlViTImageProcessorPil().save_pretrained(tmp_path)
    spec = RunSpec(str(tmp_path), DETECT, text=("a cat",))
    if words is None:
        with pytest.raises(BadInput, match=r"has no tokenizer \(tokenizer.json\) to read the queries; choose another"):
            models.load(spec, torch.device("cpu"))
    else:
        vocabulary = {word: at for at, word in enumerate(["<|startoftext|>", "<|endoftext|>", *words])}
        CLIPTokenizer(vocab=vocabulary, merges=[]).save_pretrained(tmp_path)
        assert len(models.load(spec, torch.device("cpu")).tokenizer) == 4


def test_a_config_without_labels_is_loaded(tmp_path: Path):
    """As transformers writes one for a PVT whose labels nobody named."""
    config = PvtConfig(image_size=32, hidden_sizes=[8] * 4, num_attention_heads=[1] * 4, depths=[1] * 4, num_labels=3)
    PvtForImageClassification(config).save_pretrained(tmp_path)
    PvtImageProcessorPil().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"id2label": None}))
    assert loaded(str(tmp_path)).model.config.id2label is None


def test_a_folder_that_may_not_be_read_is_not_called_the_hub_s_cache(tmp_path: Path):
    told = str(models._refusal(str(tmp_path), PermissionError(errno.EACCES, "Permission denied")))
    assert told == f"A file of {tmp_path.name} cannot be read: Permission denied. Allow reading it, or {models.OTHER}."
