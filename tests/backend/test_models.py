"""Tests of loading checkpoints from folders and from a stub of the Hub, and of the sentences that refuse them.

The guide's twelve, shrunken, are loaded in the layout in which the Hub holds them. How `tests/backend/old_layouts`
was made, and what of it is from memory, stands in `tests/support/old_layouts.py`.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from support import tiny_text, tiny_vit
from transformers import AutoModelForImageClassification, EfficientNetConfig

from demo.backend import failures, models
from demo.backend.tasks import image_segmentation, text_generation
from demo.backend.tasks.image_classification import ImageClassification
from demo.core import catalog
from demo.core.files import LFS_POINTER
from demo.core.options import TEXT_GENERATION, BadInput, RunSpec
from tests.support import hub_stub, old_layouts

CPU = torch.device("cpu")
VIT = catalog.ASSETS / "checkpoints" / "shapes-vit"
CLASSIFY, DETECT = "image-classification", "object-detection"
NO_HUB = "http://127.0.0.1:9"


FETCHED: list[str] = []
"""The files that the stub of the Hub was asked for, as `stub/good/config.json`."""


@pytest.fixture(scope="module")
def stub(tmp_path_factory) -> Iterator[str]:
    """Yields the address of a stub of the Hub, with whole and faulty checkpoints."""
    folder = tmp_path_factory.mktemp("repositories")
    checkpoints = {"stub/good": VIT, "stub/writer": tiny_text.write(folder / "writer", "gpt2")}
    for name in ("large", "code", "damaged", "blind", "pickled"):
        checkpoints[f"stub/{name}"] = shutil.copytree(VIT, folder / name)
    with (folder / "large" / "model.safetensors").open("r+b") as weights:
        weights.truncate(50_000_000_000)  # a hole, which takes no room
    code = {"auto_map": {"AutoConfig": "evil.Config", "AutoModelForImageClassification": "evil.Model"}}
    change(folder / "code" / "config.json", code)
    (folder / "code" / "evil.py").write_text("raise SystemExit('code of the repository was run')")
    damaged = folder / "damaged" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    (folder / "blind" / "preprocessor_config.json").unlink()
    (folder / "pickled" / "model.safetensors").rename(folder / "pickled" / "pytorch_model.bin")
    with hub_stub.serve(checkpoints, FETCHED) as address:
        yield address


def loaded_from_hub(address: str, cache: Path, task: str, checkpoint: str, **options: Any) -> models.LoadedModel:
    text = {"prompt": "a cat", "tokens": 8} if task == TEXT_GENERATION else {}
    with hub_stub.taken_for_the_hub(address, cache):
        spec = catalog.make_spec(checkpoint=checkpoint, task=task, **text, **options)
        return text_generation.load(spec, CPU).loaded if text else models.load_model(spec, CPU)


@pytest.mark.parametrize(
    ("task", "checkpoint", "model"),
    [
        (CLASSIFY, "stub/good", "ViTForImageClassification"),
        (CLASSIFY, "stub/code", "ViTForImageClassification"),
        (CLASSIFY, "stub/old", "ViTForImageClassification"),
        (TEXT_GENERATION, "stub/writer", "GPT2LMHeadModel"),
    ],
)
def test_a_repository_is_loaded_without_its_code(task: str, checkpoint: str, model: str, stub: str, tmp_path) -> None:
    assert type(loaded_from_hub(stub, tmp_path, task, checkpoint).model).__name__ == model
    assert "stub/code/evil.py" not in FETCHED


@pytest.mark.parametrize(
    ("task", "checkpoint", "says"),
    [
        (CLASSIFY, "stub/large", "have 50.0 GB, the limit here is 16.0 GB"),
        (CLASSIFY, "stub/damaged", "Download or write it again"),
        (CLASSIFY, "stub/blind", "stub/blind has no preprocessor_config.json, which says how a picture becomes"),
        (CLASSIFY, "stub/missing", "was not found on the Hub"),
        (CLASSIFY, "stub/broken", "The Hub fails (status 500). Try again later, or choose another checkpoint."),
        (CLASSIFY, "stub/busy", "The Hub asks to wait (status 429). Try again later"),
        (CLASSIFY, "stub/forbidden", "refuses stub/forbidden (status 403): Please enable access to gated"),
        (CLASSIFY, "stub/pickled", "stub/pickled has its weights as pickle (pytorch_model.bin), and only safetensors"),
        (DETECT, "stub/good", "does not do object detection"),
        (CLASSIFY, "stub/gated", "is gated on the Hub. Accept its licence at https://huggingface.co/stub/gated"),
        (TEXT_GENERATION, "google/gemma-2b", "log in (hf auth login), or choose weights: random"),
    ],
)
def test_a_repository_that_cannot_be_run_is_refused(task: str, checkpoint: str, says: str, stub: str, tmp_path) -> None:
    with pytest.raises(BadInput) as refused:
        loaded_from_hub(stub, tmp_path, task, checkpoint)
    sentence = str(refused.value)
    assert says in sentence and "Traceback" not in sentence and len(sentence) < 500
    assert not any(file.startswith("stub/large/") for file in FETCHED)


@pytest.mark.parametrize(("variable", "says"), [("HF_TOKEN", "HF_TOKEN. Unset it"), (None, "your login. Log in again")])
def test_a_token_that_the_hub_refuses_is_named(
    variable: str | None, says: str, stub: str, tmp_path, monkeypatch
) -> None:
    """The model is public: the same call without the token loads it."""
    with monkeypatch.context() as patch:
        if variable is not None:
            patch.setenv(variable, hub_stub.REFUSED_TOKEN)
        else:
            (tmp_path / "token").write_text(hub_stub.REFUSED_TOKEN)
            patch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        with pytest.raises(failures.CannotLoad, match=f"The Hub refuses the token of {says}"):
            loaded_from_hub(stub, tmp_path, CLASSIFY, "stub/good")
    assert loaded_from_hub(stub, tmp_path, CLASSIFY, "stub/good").model is not None


def test_without_the_hub_a_checkpoint_loads_from_the_cache(stub: str, tmp_path) -> None:
    loaded_from_hub(stub, tmp_path, CLASSIFY, "stub/good")
    assert loaded_from_hub(NO_HUB, tmp_path, CLASSIFY, "stub/good").model is not None
    for checkpoint, says in (("stub/writer", "it does not answer"), ("microsoft/resnet-50", "weights: random")):
        with pytest.raises(BadInput, match=says):
            loaded_from_hub(NO_HUB, tmp_path, CLASSIFY, checkpoint)
    assert loaded_from_hub(NO_HUB, tmp_path, CLASSIFY, "microsoft/resnet-50", weights="random").model is not None


TENSOR = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


def header(names: list[str]) -> bytes:
    written = json.dumps(dict.fromkeys(names, TENSOR)).encode()
    return len(written).to_bytes(8, "little") + written


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"model.safetensors": header([f"t{at}" for at in range(1001)])}, id="many names"),
        pytest.param({"model.safetensors": header([f"{at}{'x' * 10_000}" for at in range(51)])}, id="long names"),
        pytest.param(
            {f"{at}.safetensors": header([f"t{at}-{n}" for n in range(501)]) for at in range(2)}, id="in two files"
        ),
        pytest.param({"0.safetensors": header(["t"]), "more names": b"1001"}, id="many names in the index"),
    ],
)
def test_very_many_weight_tensors_are_refused_before_they_are_read(
    files: dict[str, bytes], tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(models, "MAX_TENSORS", 1000)
    monkeypatch.setattr(models, "_model", lambda *_: pytest.fail("transformers read the file"))
    folder = Path(changed_copy(tmp_path, "config.json"))
    (folder / "model.safetensors").unlink()
    names = range(int(files.pop("more names", b"0")))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if "model.safetensors" not in files:
        parts = dict.fromkeys(map(str, names), "0.safetensors") | {name: name for name in files}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    with pytest.raises(BadInput, match="names more than 1,000 weight tensors"):
        load(str(folder))


def change(file: Path, entries: dict[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def changed_copy(folder: Path, name: str, **entries: Any) -> str:
    """Copies the bundled classifier, with `entries` in its JSON file `name`. Returns the path of the copy."""
    shutil.copytree(VIT, folder / "model")
    change(folder / "model" / name, entries)
    return str(folder / "model")


def load(folder: str) -> models.LoadedModel:
    return models.load_model(RunSpec(folder, CLASSIFY), CPU)


MODEL, PROCESSOR = "config.json", "preprocessor_config.json"
OWN_CODE = {"model_type": "x", "auto_map": {"AutoConfig": "code.X"}}
OWN_CLASS = {"architectures": ["MyViT"], "auto_map": {"AutoModelForImageClassification": "code.MyViT"}}
DIVISOR = {"image_processor_type": "MaskFormerImageProcessor", "size_divisor": 200_000}
LARGE = {"hidden_size": 96_000, "intermediate_size": 400_000}
OTHER_LABELS = {"id2label": {"0": "one", "1": "two"}}


@pytest.mark.parametrize(
    ("name", "entries", "says"),
    [
        (MODEL, {"hidden_act": ["gelu"]}, "expected str, got list .* Choose another checkpoint."),
        (MODEL, {"id2label": ["one", "two"]}, "id2label is no dict from numbers to labels. Choose another"),
        (MODEL, OTHER_LABELS, "its weights have other shapes than its config says"),
        (MODEL, {"architectures": ["ViTModel"]}, "is a ViTModel, which does not do image classification here"),
        (MODEL, {"model_type": "x"}, "its config's model_type, 'x'. Choose"),
        (
            MODEL,
            OWN_CODE,
            "brings its own Python code for its model_type, 'x', .* trust_remote_code=True in a function",
        ),
        (MODEL, OWN_CLASS, "brings its own Python code for its MyViT, .* trust_remote_code=True in a function"),
        (MODEL, {"model_type": None}, "its config.json names no model_type, so it is no model of transformers"),
        (MODEL, LARGE, "is a model of more than 2,000,000,000 parameters"),
        (
            PROCESSOR,
            {"image_mean": [0.5], "image_std": [0.5]},
            "image_mean has 1, and pictures here have 3",
        ),
        (MODEL, {"num_channels": 1}, "the model has 1, and pictures here have 3"),
        (PROCESSOR, {"size": {"height": 64}}, "size must have one of"),
        (PROCESSOR, {"size": {"height": 200_000, "width": 200_000}}, "more than 4096 pixels a side"),
        (PROCESSOR, DIVISOR, "more than 4096 pixels a side"),
        (MODEL, {"hidden_size": 10**8}, "gigantic model: hidden_size is 100,000,000, the limit is 10,000,000"),
        (MODEL, {"image_size": 10**50}, "image_size is 100,000,000,[0,]*…, the limit is 10,000,000"),
        (MODEL, {"num_hidden_layers": 10**6}, "num_hidden_layers is 1,000,000, the limit is 200"),
        (MODEL, {"depths": [90, 90, 90]}, "the sum of depths is 270, the limit is 200"),
        (MODEL, {"num_labels": 10**6, "id2label": None}, "num_labels is 1,000,000, the limit is 100,000"),
        (MODEL, {"text_config": {"num_labels": 10**6}}, "num_labels is 1,000,000, the limit is 100,000"),
        (MODEL, {"id2label": dict.fromkeys(range(100_001), "x")}, "entries of id2label is 100,001"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_a_wrong_entry_is_a_refusal(name: str, entries: dict, says: str, tmp_path) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        load(changed_copy(tmp_path, name, **entries))
    assert "checkpoint" in str(refused.value) and str(refused.value).endswith(".")


def test_a_pointer_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    """The file is vocab.txt. Without the refusal, transformers would read the pointer's lines as a vocabulary."""
    folder = shutil.copytree(catalog.ASSETS / "checkpoints" / "shapes-gemma", tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text(LFS_POINTER.decode() + "v1\noid sha256:4d7a\nsize 5\n")
    change(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    with pytest.raises(BadInput, match=r"has Git LFS pointers in place of vocab.txt. Run `git lfs pull`"):
        text_generation.load(catalog.make_spec(str(folder), TEXT_GENERATION, folders=True, prompt="a"), CPU)


@pytest.mark.parametrize(
    ("lacking", "installed", "remedy"),
    [
        ("tokenizer.json", False, "Install sentencepiece, which reads a tokenizer.model. Or give a folder with"),
        ("tokenizer.json", True, "Give a folder with"),
        ("merges.txt", True, "Give a folder with"),
    ],
)
def test_a_tokenizer_that_cannot_be_read_here_has_its_remedy(
    lacking: str, installed: bool, remedy: str, tmp_path: Path, monkeypatch
) -> None:
    folder = tiny_text.write(tmp_path / "writer", "gpt2")
    if lacking == "merges.txt":
        (folder / "vocab.json").write_text(json.dumps({"a": 0, "b": 1}))
        (folder / "tokenizer_config.json").unlink()
    else:  # a file that no installed library can read
        (folder / "tokenizer.model").write_bytes(bytes(100))
    (folder / "tokenizer.json").unlink()
    monkeypatch.setattr(failures, "find_spec", lambda name: installed or None)
    spec = catalog.make_spec(checkpoint=str(folder), task=TEXT_GENERATION, folders=True, prompt="a cat", tokens=8)
    with pytest.raises(failures.CannotLoad, match=r"^writer has no tokenizer\.json, and no other") as refused:
        text_generation.load(spec, CPU)
    assert refused.value.failure.remedy.startswith(remedy)


def test_a_folder_without_a_config_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "google/gemma-2b"}')
    with pytest.raises(BadInput, match=r"is an adapter of google/gemma-2b, not a whole model. Merge it into"):
        load(str(tmp_path))
    (tmp_path / "adapter_config.json").unlink()
    with pytest.raises(BadInput, match=r"holds no config.json. Give one written by save_pretrained"):
        load(str(tmp_path))


def test_a_model_of_endless_parts_is_refused_while_it_is_built() -> None:
    """Each number in the model's config is allowed, but together they make too many tensors."""
    config = EfficientNetConfig(num_block_repeats=[10**7] * 7)
    with pytest.raises(BadInput, match="more than 20,000 weight tensors"):
        models.refuse_large_model(AutoModelForImageClassification, config, "some/model")


def test_nulls_of_an_older_release_load_as_the_same_model(tmp_path):
    entries = {"is_encoder_decoder": None, "label2id": None, "hidden_act": None, "layer_norm_eps": None}
    entries["_attn_implementation"] = "somebody/kernel"  # no code is taken from a config
    loaded, expected = load(changed_copy(tmp_path, MODEL, **entries)), load(str(VIT))
    pixels = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(loaded.model(pixels).logits, expected.model(pixels).logits)
    assert loaded.model.config._attn_implementation == "sdpa"
    assert loaded.caveats == [] and loaded.model.config.id2label == expected.model.config.id2label


@pytest.mark.parametrize(("lacking", "caveats"), [("num_batches_tracked", 0), ("classifier.1.bias", 1)])
def test_a_missing_weight_that_counts_is_a_caveat(lacking: str, caveats: int, tmp_path):
    model = load(str(tiny_vit.of_any_size(tmp_path))).model
    state = {name: tensor for name, tensor in model.state_dict().items() if not name.endswith(lacking)}
    assert len(state) < len(model.state_dict())
    model.save_pretrained(tmp_path, state_dict=state)
    assert len(load(str(tmp_path)).caveats) == caveats


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", None], ids=["compiled", "DataParallel", "no weights"])
def test_weights_whose_names_the_model_does_not_know_are_refused(prefix: str | None, tmp_path) -> None:
    shutil.copytree(VIT, tmp_path / "model")
    state = load_file(VIT / "model.safetensors") if prefix else {}
    renamed = {f"{prefix}{name}": weight for name, weight in state.items()}
    save_file(renamed, tmp_path / "model" / "model.safetensors", {"format": "pt"})
    says = f"None of the weights of model has a name .* first is {prefix}classifier.bias" if prefix else "holds none."
    with pytest.raises(failures.CannotLoad, match=says):
        load(str(tmp_path / "model"))


def keys_of(folder: Path, **options: Any) -> dict[str, Any]:
    caveats = models.load_model(RunSpec(str(folder), CLASSIFY, **options), CPU).caveats
    return {caveat.key: caveat.values for caveat in caveats}


def test_weights_that_the_model_does_not_take_are_a_caveat(tmp_path) -> None:
    model = load(str(tiny_vit.of_any_size(tmp_path))).model
    more = {f"classifier.{name}": torch.ones(1) for name in ("lora_A.weight", "weight_scale_inv", "position_ids")}
    model.save_pretrained(tmp_path, state_dict=model.state_dict() | more)
    assert keys_of(tmp_path) == {"unused_weights": {"count": 2, "first": "classifier.lora_A.weight"}}


@pytest.mark.parametrize(
    ("entries", "options", "keys"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, {"weights": "random"}, ["quantized"]),
        ({"quantization_config": {"quant_method": "new", "bits": 4}}, {}, ["unknown_quantization"]),
        ({"dtype": "bfloat16"}, {"weights": "random"}, ["stored_dtype"]),
        ({"dtype": None, "torch_dtype": "float16"}, {"weights": "random"}, ["stored_dtype"]),  # as most of the Hub
        ({"dtype": "bfloat16"}, {"weights": "random", "dtype": "bfloat16"}, []),
        ({"dtype": "bfloat16"}, {}, []),  # the file is in float32
    ],
)
def test_a_config_in_another_format_has_a_caveat(
    entries: dict[str, Any], options: dict[str, Any], keys: list[str], tmp_path
) -> None:
    assert list(keys_of(Path(changed_copy(tmp_path, MODEL, **entries)), **options)) == keys


@pytest.mark.parametrize(
    ("stored", "dtype", "told"),
    [
        (torch.float16, "float32", "float16"),
        (torch.float8_e4m3fn, "float32", "float8_e4m3"),
        (torch.float8_e4m3fn, "bfloat16", "float8_e4m3"),
        (torch.float16, "bfloat16", None),  # asked for
        (torch.float32, "float32", None),
    ],
)
@pytest.mark.parametrize("entry", ["float32", None])
def test_weights_that_are_stored_in_another_format_have_a_caveat(
    stored: torch.dtype, dtype: str, told: str | None, entry: str | None, tmp_path
) -> None:
    """Whatever the config says: many a config has no entry for it, or another one than its file."""
    folder = Path(changed_copy(tmp_path, MODEL, dtype=entry))
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor.to(stored) for name, tensor in weights.items()}, folder / "model.safetensors")
    expected = {"stored_dtype": {"stored": told, "dtype": dtype}} if told else {}
    assert keys_of(folder, dtype=dtype) == expected


def test_code_of_a_checkpoint_that_is_not_run_is_a_caveat(tmp_path) -> None:
    own = {"auto_map": {"AutoModelForImageClassification": "code.ViTForImageClassification"}}
    folder = Path(changed_copy(tmp_path, MODEL, **own))
    assert keys_of(folder) == {"own_code": {"used": "ViTForImageClassification"}}
    change(folder / MODEL, {"auto_map": {"AutoConfig": "code.ViTConfig"}})
    change(folder / PROCESSOR, {"auto_map": {"AutoImageProcessor": "code.ViTImageProcessor"}})
    assert keys_of(folder) == {"own_code": {"used": "ViTImageProcessorPil"}}


def test_a_processor_that_says_nothing_is_a_caveat(tmp_path) -> None:
    folder = Path(changed_copy(tmp_path, PROCESSOR))
    for entries in ({}, {"image_processor_type": "ViTImageProcessor"}):
        (folder / PROCESSOR).write_text(json.dumps(entries))
        assert keys_of(folder) == {"default_processor": {"used": "ViTImageProcessor"}}


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({"image_processor_type": "MyImageProcessor"}, "MyImageProcessor"),
        ({"image_processor_type": None, "feature_extractor_type": "MyFeatureExtractor"}, "MyFeatureExtractor"),
        ({"image_processor_type": "ViTImageProcessorFast"}, None),
        ({"image_processor_type": None, "feature_extractor_type": "ViTFeatureExtractor"}, None),
        ({"image_processor_type": None}, None),
    ],
    ids=["unknown", "unknown, of an old release", "another backend", "an old release's", "none named"],
)
def test_an_image_processor_that_is_not_there_has_a_caveat(
    entries: dict[str, Any], named: str | None, tmp_path
) -> None:
    found = {"other_processor": {"named": named, "used": "ViTImageProcessor"}} if named else {}
    assert keys_of(Path(changed_copy(tmp_path, PROCESSOR, **entries))) == found


@pytest.mark.parametrize(("name", "kind"), [("mask2former-swin-tiny-coco-instance", "instance"), ("my-own", None)])
def test_a_universal_model_is_decoded_as_its_name_says(name: str, kind: str | None, tmp_path):
    folder = write_repository("facebook/mask2former-swin-tiny-coco-panoptic", tmp_path / name)
    workload = image_segmentation.load(RunSpec(str(folder), "image-segmentation"), CPU, catalog.scenes()[0])
    assert workload.loaded.checkpoint.segmentation == (kind or "semantic")
    assert [caveat.key for caveat in workload.caveats] == ["segmentation"] * (kind is None)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"one.safetensors": 9 * 10**9, "named-otherwise.safetensors": 9 * 10**9}, "have 18.0 GB, the limit here is"),
        ({"config.json": 60_000_000}, "some/model has a text file of 60.0 MB, the limit is 50.0 MB"),
        ({"a.safetensors": 16 * 10**9, "config.json": 50_000_000, "pytorch_model.bin": 10**12}, None),
    ],
    ids=["weights", "text file", "within the limits"],
)
def test_files_beyond_a_limit_are_refused(sizes: dict, says: str | None, monkeypatch) -> None:
    files = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    monkeypatch.setattr(huggingface_hub, "model_info", lambda name, **_: SimpleNamespace(siblings=files))
    with pytest.raises(BadInput, match=says) if says else contextlib.nullcontext():
        models.refuse_large_files(models.Source("some/model", "some/model", {}, {}))


LAYOUTS = Path(__file__).parent / "old_layouts"
TWELVE = [checkpoint.id for checkpoint in catalog.PUBLISHED]
TIMM = "microsoft/conditional-detr-resnet-50"


def layout(checkpoint: str) -> dict[str, Any]:
    return json.loads((LAYOUTS / f"{checkpoint.replace('/', '--')}.json").read_text())


def write_repository(checkpoint: str, folder: Path) -> Path:
    """Writes a shrunken copy of a published checkpoint into `folder`, with the files of its Hub repository."""
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
        special = {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        tokenizer = {"tokenizer_class": "CLIPTokenizer", "do_lower_case": True, "model_max_length": 16, **special}
        (folder / "merges.txt").write_text("#version: 0.2\n")
        (folder / "vocab.json").write_text(json.dumps(old_layouts.VOCABULARY))
        (folder / "special_tokens_map.json").write_text(json.dumps(special))
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder


def shrunken_assets(folder: Path) -> Path:
    """Makes `folder` an assets folder that has one config, and returns `folder`.

    The config is a small version of this project's, for the checkpoint that is published with a timm backbone.
    """
    shipped = json.loads((catalog.config_folder(catalog.find(TIMM)) / "config.json").read_text())
    small = layout(TIMM)["config"]
    shipped |= {name: small[name] for name in shipped.keys() & small.keys() - {"backbone_config", "backbone"}}
    shipped["backbone_config"] |= {"depths": [1] * 4, "hidden_sizes": [16, 16, 32, 32], "embedding_size": 16}
    place = folder / "configs" / TIMM.replace("/", "--")
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(shipped))
    return folder


def answer(checkpoint: str) -> dict[str, Any]:
    text = (old_layouts.QUERY,) if catalog.find(checkpoint).takes_text else ()
    spec = catalog.make_spec(checkpoint, text=text)
    loaded = models.load_model(spec, CPU)
    assert loaded.caveats == []
    with torch.no_grad():
        workload = ImageClassification(spec, CPU, loaded.model, loaded, old_layouts.picture(), Path())
        outputs = loaded.model(**workload.preprocess())
    kept = (name for name in old_layouts.OUTPUTS if name in outputs)
    return {name: outputs[name].flatten()[: old_layouts.KEPT].tolist() for name in kept}


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[None]:
    """Serves shrunken copies of the guide's twelve checkpoints in place of the Hub."""
    folder = tmp_path_factory.mktemp("hub")
    repositories = {id: write_repository(id, folder / id) for id in TWELVE}
    with (
        pytest.MonkeyPatch.context() as patch,
        hub_stub.serve(repositories) as endpoint,
        hub_stub.taken_for_the_hub(endpoint, folder / "cache"),
    ):
        patch.setattr(catalog, "ASSETS", shrunken_assets(folder / "assets"))
        yield


@pytest.mark.parametrize("checkpoint", TWELVE)
def test_each_of_the_twelve_answers_as_the_old_release_does(hub: None, checkpoint: str) -> None:
    outputs, expected = answer(checkpoint), layout(checkpoint)["outputs"]
    assert outputs.keys() == expected.keys()
    for name, numbers in expected.items():
        assert outputs[name] == pytest.approx(numbers, abs=5e-4), name  # Mask2Former's attention has a threshold
