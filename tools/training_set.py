"""Draws the training scenes once, all together, into a folder outside the repository.

Drawing a scene takes about as long as a training step on it, and every training needs the same scenes. Scenes are drawn
at the sizes and aspect ratios of ordinary pictures. Then Pillow's bilinear filter scales them to the square inputs of
the models, as the checkpoints' image processors do later.
"""

import hashlib
import multiprocessing
import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tools import scenes

FIRST_TRAINING_SEED = 1_000_000  # seeds below are free for tests, examples and visitors
SMALL, LARGE = 64, 128  # the input sizes that the checkpoints use
MOST_OBJECTS = 5


@dataclass(frozen=True)
class TrainingSet:
    """Arrays over n scenes. Label -1 is padding.

    `boxes` are (centre x, centre y, width, height), divided by the width or height of the picture.
    """

    small: np.ndarray  # (n, SMALL, SMALL, 3) uint8
    large: np.ndarray  # (n, LARGE, LARGE, 3) uint8
    masks: np.ndarray  # (n, LARGE, LARGE) uint8
    boxes: np.ndarray  # (n, MOST_OBJECTS, 4) float32
    labels: np.ndarray  # (n, MOST_OBJECTS) int64
    dominant: np.ndarray  # (n,) int64


_Arrays = dict[str, np.ndarray]


def load(count: int) -> TrainingSet:
    """Returns the first `count` training scenes. They are drawn now, unless an earlier run has stored them."""
    folder = _folder(count)
    if not folder.exists():
        print(f"Drawing {count} scenes into {folder} ...")
        _draw_all(count, folder)
    names = ("small", "large", "masks", "boxes", "labels", "dominant")
    return TrainingSet(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names})


def _folder(count: int) -> Path:
    """Returns the path of the folder for the first `count` scenes.

    Its name has a hash of eight scenes, drawn now. If the code draws other scenes than before, the name is a new one,
    and the old scenes are not used.
    """
    sample = b"".join(array.tobytes() for array in _draw_chunk(0, 8).values())
    return Path(tempfile.gettempdir()) / f"shapes-{count}-{hashlib.sha256(sample).hexdigest()[:12]}"


def _draw_all(count: int, folder: Path) -> None:
    """Draws the scenes on all cores and saves them in `folder`.

    The folder gets its name only when it is complete, so an interrupted run leaves no incomplete set.
    """
    chunk = 250
    starts = range(0, count, chunk)
    sizes = [min(chunk, count - start) for start in starts]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        chunks = list(pool.map(_draw_chunk, starts, sizes))
    unfinished = Path(tempfile.mkdtemp(prefix="shapes-unfinished-"))
    for name in chunks[0]:
        np.save(unfinished / f"{name}.npy", np.concatenate([arrays[name] for arrays in chunks]))
    if folder.exists():  # another run was quicker
        shutil.rmtree(unfinished)
    else:
        unfinished.rename(folder)


def _draw_chunk(start: int, count: int) -> _Arrays:
    arrays: _Arrays = {
        "small": np.empty((count, SMALL, SMALL, 3), np.uint8),
        "large": np.empty((count, LARGE, LARGE, 3), np.uint8),
        "masks": np.empty((count, LARGE, LARGE), np.uint8),
        "boxes": np.zeros((count, MOST_OBJECTS, 4), np.float32),
        "labels": np.full((count, MOST_OBJECTS), -1, np.int64),
        "dominant": np.empty(count, np.int64),
    }
    for row in range(count):
        seed = FIRST_TRAINING_SEED + start + row
        scene = scenes.draw_scene(seed, scenes.random_size(seed))
        width, height = scene.image.size
        arrays["small"][row] = scene.image.resize((SMALL, SMALL), Image.Resampling.BILINEAR)
        arrays["large"][row] = scene.image.resize((LARGE, LARGE), Image.Resampling.BILINEAR)
        arrays["masks"][row] = Image.fromarray(scene.mask).resize((LARGE, LARGE), Image.Resampling.NEAREST)
        arrays["dominant"][row] = scenes.SHAPES.index(scene.label)
        for column, shape in enumerate(scene.objects):
            x0, y0, x1, y1 = np.array(shape.box) / (width, height, width, height)
            arrays["boxes"][row, column] = (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0
            arrays["labels"][row, column] = scenes.SHAPES.index(shape.label)
    return arrays
