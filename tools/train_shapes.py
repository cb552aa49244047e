"""Trains the three bundled vision checkpoints on drawn shapes, and writes their folders.

    python -m tools.train_shapes                  all three, one after the other
    python -m tools.train_shapes --only vit       one of them: vit, segformer or rtdetr

The same torch and the same processor give the same weights: all random numbers come from fixed seeds, and sums are
computed in one thread, so that their order never changes. Another torch or processor rounds differently and gives other
weights, which are as good. Training needs no GPU; the model cards say how many minutes it took on one CPU core.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    PreTrainedModel,
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrResNetConfig,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.rt_detr.image_processing_pil_rt_detr import RTDetrImageProcessorPil
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from tools import evaluate_shapes, training_set
from tools.scenes import SHAPES
from tools.training_set import LARGE, SMALL, TrainingSet

CHECKPOINTS = Path(__file__).resolve().parent.parent / "assets" / "checkpoints"
SCENES = 12_000
SEED = 0
LARGEST_GRADIENT = 1.0
FALSE_BOXES = 0.06

Batch = dict[str, Any]  # keyword arguments of a model's forward


class Tutor(torch.nn.Module):
    """An additional head during a ViT's training: it predicts for each patch token which shapes the patch shows.

    It is dropped after the training. With only one label for each scene, a transformer without convolutions hardly
    learns at first: its loss stayed at ln 7 for 600 steps of 32 scenes. With this head, it learns from every patch.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.patches = model.config.image_size // model.config.patch_size
        self.head = torch.nn.Linear(model.config.hidden_size, len(SHAPES) + 1)

    def forward(self, model: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """Returns the model's loss plus the head's. `batch["masks"]`: the true shapes, (n, size, size)."""
        images, masks = batch["pixel_values"], batch["masks"]
        outputs = model(pixel_values=images, labels=batch["labels"], output_hidden_states=True)
        tokens = outputs.hidden_states[-1][:, 1:]
        planes = torch.nn.functional.one_hot(masks.long(), len(SHAPES) + 1).permute(0, 3, 1, 2).float()
        shares = torch.nn.functional.adaptive_avg_pool2d(planes, self.patches).flatten(2)
        return outputs.loss + torch.nn.functional.cross_entropy(self.head(tokens).transpose(1, 2), shares)


@dataclass(frozen=True)
class Recipe:
    """How one checkpoint is made.

    `afresh`: whether `start_afresh` replaces the initial weights that transformers drew. RT-DETR keeps them: many of
    its weights start at zero or in a pattern on purpose, and replacing only the other weights did not help.
    """

    folder: str
    build: Callable[[], PreTrainedModel]
    processor: Callable[[], Any]
    batch: Callable[[TrainingSet, np.ndarray, torch.Generator, float], Batch]
    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    afresh: bool = True
    calibrated: bool = False
    tutor: Callable[[PreTrainedModel], Tutor] | None = None


# --- the models -------------------------------------------------------------------------------------------------------


def _names(labels: tuple[str, ...]) -> dict[str, Any]:
    return {"id2label": dict(enumerate(labels)), "label2id": {label: index for index, label in enumerate(labels)}}


def build_vit() -> ViTForImageClassification:
    """Returns a ViT with 0.83 M parameters and 8 by 8 patches of 8 pixels."""
    return ViTForImageClassification(
        ViTConfig(
            image_size=SMALL,
            patch_size=8,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=512,
            **_names(SHAPES),
        )
    )


def build_segformer() -> SegformerForSemanticSegmentation:
    """Returns a SegFormer with 0.42 M parameters. Its first stage only halves the picture, which keeps thin tips."""
    return SegformerForSemanticSegmentation(
        SegformerConfig(
            strides=[2, 2, 2, 2],
            patch_sizes=[5, 3, 3, 3],
            hidden_sizes=[16, 32, 64, 96],
            depths=[1, 2, 2, 2],
            num_attention_heads=[1, 2, 2, 4],
            mlp_ratios=[2, 2, 2, 2],
            sr_ratios=[8, 4, 2, 1],
            decoder_hidden_size=32,
            drop_path_rate=0.0,
            classifier_dropout_prob=0.0,
            **_names(("background", *SHAPES)),
        )
    )


def build_rtdetr() -> RTDetrForObjectDetection:
    """Returns an RT-DETR with 0.79 M parameters. Its batch norms are not frozen, because it is trained from scratch."""
    return RTDetrForObjectDetection(
        RTDetrConfig(
            backbone_config=RTDetrResNetConfig(
                embedding_size=32,
                hidden_sizes=[32, 48, 64, 96],
                depths=[1, 1, 1, 1],
                layer_type="basic",
                out_indices=[2, 3, 4],  # type: ignore[call-arg]  # accepted, but not in the class's signature
            ),
            freeze_backbone_batch_norms=False,
            encoder_in_channels=[48, 64, 96],
            encoder_hidden_dim=64,
            encoder_ffn_dim=128,
            encoder_attention_heads=4,
            hidden_expansion=0.5,
            d_model=64,
            num_queries=20,
            decoder_in_channels=[64, 64, 64],
            decoder_ffn_dim=128,
            decoder_layers=3,
            decoder_attention_heads=4,
            num_denoising=20,
            # Heavier than the library's on boxes that fit nothing: two boxes on one shape were the commonest mistake.
            weight_loss_vfl=2.0,
            focal_loss_alpha=1.0,
            focal_loss_gamma=1.0,
            **_names(SHAPES),
        )
    )


def start_afresh(model: PreTrainedModel) -> None:
    """Replaces the initial weights by random weights that suit small models.

    Transformers draws all matrices with a deviation of 0.02, whatever their width. This makes signals in narrow layers
    vanish. Here each layer keeps the scale of its inputs, and the position embeddings of a ViT start as waves.
    """
    for module in model.modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
            gain = 2.0 if isinstance(module, torch.nn.Conv2d) else 1.0
            torch.nn.init.trunc_normal_(module.weight, std=(gain / module.weight[0].numel()) ** 0.5)
    if isinstance(model, ViTForImageClassification):
        positions = model.vit.embeddings.position_embeddings
        with torch.no_grad():
            positions.copy_(_waves(math.isqrt(positions.shape[1] - 1), positions.shape[2]))


def _waves(side: int, width: int) -> torch.Tensor:
    """Returns position embeddings, (1, 1 + side * side, width), as sines and cosines: neighbours start out similar."""
    quarter = width // 4
    frequencies = 100.0 ** -(torch.arange(quarter) / quarter)
    angles = torch.arange(side)[:, None] * frequencies
    line = torch.cat([angles.sin(), angles.cos()], 1)
    rows, columns = line[:, None].expand(-1, side, -1), line[None].expand(side, -1, -1)
    grid = torch.cat([rows, columns], -1).reshape(1, side * side, width)
    return torch.cat([torch.zeros(1, 1, width), grid], 1)


# --- batches, with the variety that costs no drawing ------------------------------------------------------------------


def _flips(count: int, generator: torch.Generator) -> torch.Tensor:
    """Returns (count,) of bool: which pictures to mirror left-right. A mirrored shape keeps its name."""
    return torch.rand(count, generator=generator) < 0.5


def _mirror(planes: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
    """Returns the planes, (n, ..., height, width), with those chosen by `flips` mirrored left-right."""
    return torch.where(flips.view(-1, *[1] * (planes.dim() - 1)), planes.flip(-1), planes)


def _mirror_boxes(boxes: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
    """Returns the boxes, (n, objects, 4) as centre and extent, with those chosen by `flips` mirrored left-right."""
    x, *rest = boxes.unbind(-1)
    return torch.stack([torch.where(flips[:, None], 1 - x, x), *rest], -1)


def _pictures(
    pixels: np.ndarray, masks: torch.Tensor, flips: torch.Tensor, generator: torch.Generator, ease: float
) -> torch.Tensor:
    """Returns pictures, (n, 3, size, size) in 0 to 1, changed at random: mirrored, channels shuffled, noisy and so on.

    `ease`: 0 gives the pictures themselves, 1 gives white silhouettes on black, and a value between them a blend of
    both. `masks` are already mirrored.
    """
    count = len(pixels)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    order = torch.rand((count, 3), generator=generator).argsort(1)
    images = images.gather(1, order[:, :, None, None].expand_as(images))
    gain = torch.empty((count, 3, 1, 1)).uniform_(0.85, 1.15, generator=generator)
    shift = torch.empty((count, 3, 1, 1)).uniform_(-0.06, 0.06, generator=generator)
    noise = torch.empty((count, 1, 1, 1)).uniform_(-0.03, 0.03, generator=generator).clamp_min(0)
    images = images * gain + shift + noise * torch.randn(images.shape, generator=generator)
    images = _mirror(images, flips).clamp(0, 1)
    if ease > 0:
        silhouettes = torch.nn.functional.adaptive_avg_pool2d((masks > 0).float()[:, None], images.shape[-1])
        images = torch.lerp(images, silhouettes.expand_as(images), ease)
    return images


def _ease(step: int, steps: int) -> float:
    """Returns the `ease` of a step: 1 (silhouettes) in the first twelfth of the training, 0 (pictures) from a third on.

    A shape's outline does not depend on its colour. Models that learn outlines first skip a long phase. In that phase
    they tell shapes from the background, but not from each other.
    """
    return min(1.0, max(0.0, (1 / 3 - step / steps) / (1 / 3 - 1 / 12)))


def _standardised(images: torch.Tensor, mean: tuple[float, ...], spread: tuple[float, ...]) -> torch.Tensor:
    return (images - torch.tensor(mean)[:, None, None]) / torch.tensor(spread)[:, None, None]


def vit_batch(scenes: TrainingSet, rows: np.ndarray, generator: torch.Generator, ease: float) -> Batch:
    flips = _flips(len(rows), generator)
    masks = _mirror(torch.from_numpy(scenes.masks[rows]), flips)
    images = _pictures(scenes.small[rows], masks, flips, generator, ease)
    return {
        "pixel_values": _standardised(images, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        "labels": torch.from_numpy(scenes.dominant[rows]),
        "masks": masks,
    }


def segformer_batch(scenes: TrainingSet, rows: np.ndarray, generator: torch.Generator, ease: float) -> Batch:
    flips = _flips(len(rows), generator)
    masks = _mirror(torch.from_numpy(scenes.masks[rows]), flips)
    images = _pictures(scenes.large[rows], masks, flips, generator, ease)
    return {
        "pixel_values": _standardised(images, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "labels": masks.long(),
    }


def rtdetr_batch(scenes: TrainingSet, rows: np.ndarray, generator: torch.Generator, ease: float) -> Batch:
    flips = _flips(len(rows), generator)
    masks = _mirror(torch.from_numpy(scenes.masks[rows]), flips)
    images = _pictures(scenes.large[rows], masks, flips, generator, ease)
    boxes = _mirror_boxes(torch.from_numpy(scenes.boxes[rows]), flips)
    labels = torch.from_numpy(scenes.labels[rows])
    truth = [
        {"class_labels": kinds[kinds >= 0], "boxes": places[kinds >= 0]}
        for kinds, places in zip(labels, boxes, strict=True)
    ]
    return {"pixel_values": images, "labels": truth}


RECIPES = {
    "vit": Recipe(
        folder="shapes-vit",
        build=build_vit,
        processor=lambda: ViTImageProcessorPil(size={"height": SMALL, "width": SMALL}),
        batch=vit_batch,
        steps=4500,
        batch_size=32,
        learning_rate=1e-3,
        weight_decay=0.05,
        tutor=Tutor,
    ),
    "segformer": Recipe(
        folder="shapes-segformer",
        build=build_segformer,
        processor=lambda: SegformerImageProcessorPil(size={"height": LARGE, "width": LARGE}),
        batch=segformer_batch,
        steps=2600,
        batch_size=16,
        learning_rate=2e-3,
        weight_decay=0.01,
    ),
    "rtdetr": Recipe(
        folder="shapes-rtdetr",
        build=build_rtdetr,
        processor=lambda: RTDetrImageProcessorPil(size={"height": LARGE, "width": LARGE}),
        batch=rtdetr_batch,
        steps=7000,
        batch_size=16,
        learning_rate=8e-4,
        weight_decay=1e-4,
        afresh=False,
        calibrated=True,
    ),
}


# --- training ---------------------------------------------------------------------------------------------------------


def _orders(count: int, batch_size: int, seed: int) -> Iterator[np.ndarray]:
    """Yields the row numbers of one batch after another, without end. One pass over the scenes uses no scene twice."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(count)
        for start in range(0, count - batch_size + 1, batch_size):
            yield order[start : start + batch_size]


def train(recipe: Recipe, scenes: TrainingSet, steps: int) -> PreTrainedModel:
    """Builds the model of a recipe and trains it on `scenes` for `steps` steps."""
    make_repeatable()
    generator = torch.Generator().manual_seed(SEED)
    model = recipe.build().train()
    if recipe.afresh:
        start_afresh(model)
    tutor = recipe.tutor(model) if recipe.tutor else None
    orders = _orders(len(scenes.dominant), recipe.batch_size, SEED)

    def losses() -> Iterator[torch.Tensor]:
        for step in range(1, steps + 1):
            batch = recipe.batch(scenes, next(orders), generator, _ease(step, steps))
            yield tutor(model, batch) if tutor else model(**batch).loss

    weights = [*model.parameters(), *(tutor.parameters() if tutor else ())]
    fit(recipe.folder, weights, losses(), steps, recipe.learning_rate, recipe.weight_decay)
    return model.eval()


def make_repeatable() -> None:
    """Sets torch's global seed, deterministic algorithms, and one thread, so that the order of sums never changes."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def fit(
    name: str,
    weights: list[torch.nn.Parameter],
    losses: Iterable[torch.Tensor],
    steps: int,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """Makes a step of AdamW for each of `steps` losses. `learning_rate`: the peak of a one-cycle schedule."""
    decayed = [weight for weight in weights if weight.dim() > 1]
    free = [weight for weight in weights if weight.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": weight_decay}, {"params": free, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.99),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=learning_rate, total_steps=steps + 1, pct_start=0.1
    )
    started, recent = time.perf_counter(), 0.0
    for step, loss in enumerate(losses, start=1):
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, LARGEST_GRADIENT)
        optimizer.step()
        schedule.step()
        recent += loss.item()
        if step % 100 == 0 or step == steps:
            mean, seconds = recent / (step % 100 or 100), time.perf_counter() - started
            print(f"{name} step {step}/{steps} loss {mean:.4f} {seconds:.0f} s", flush=True)
            recent = 0.0


def calibrate(model: PreTrainedModel, processor: Any) -> float:
    """Shifts a detector's scores so that at most `FALSE_BOXES` wrong boxes an image have a score over 0.5.

    Returns the score that is shifted to 0.5. The shift is needed because the loss trains a box's score to be its
    expected overlap with a shape, so 0.5 is no natural threshold. Only the bias of the last class layer changes, so the
    boxes keep their order. The scenes used are neither those of the training nor those of the test.
    """
    scenes = evaluate_shapes.fresh_scenes(evaluate_shapes.CALIBRATION_SEED, 600)
    detections = [(scene, evaluate_shapes.find_boxes(model, processor, scene)) for scene in scenes]
    thresholds = [step / 100 for step in range(20, 90)]
    threshold = next(
        (
            value
            for value in thresholds
            if evaluate_shapes.detection(detections, value).false_boxes_per_image <= FALSE_BOXES
        ),
        thresholds[-1],
    )
    with torch.no_grad():
        model.model.decoder.class_embed[-1].bias -= math.log(threshold / (1 - threshold))
    return threshold


def save(model: PreTrainedModel, processor: Any, folder: Path) -> None:
    """Writes an ordinary folder for `from_pretrained`. `processor`: an image processor or a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # as any other file of the repository
    processor.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the bundled checkpoints on drawn shapes.")
    parser.add_argument("--only", choices=sorted(RECIPES), help="train this one instead of all three")
    parser.add_argument("--steps", type=int, help="instead of the recipe's own number")
    parser.add_argument("--scenes", type=int, default=SCENES, help=f"scenes to train on ({SCENES})")
    parser.add_argument("--into", type=Path, default=CHECKPOINTS, help="where the folders go")
    arguments = parser.parse_args()

    scenes = training_set.load(arguments.scenes)
    for name in [arguments.only] if arguments.only else RECIPES:
        recipe = RECIPES[name]
        steps = arguments.steps or recipe.steps
        started = time.perf_counter()
        model = train(recipe, scenes, steps)
        minutes = (time.perf_counter() - started) / 60
        if recipe.calibrated:
            print(f"{recipe.folder} score {calibrate(model, recipe.processor())} becomes 0.5", flush=True)
        folder = arguments.into / recipe.folder
        save(model, recipe.processor(), folder)
        print(f"{recipe.folder}: {steps} steps in {minutes:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
