"""A grid: the specs of a sweep as lists of checkpoints, batch sizes, modes and dtypes, and settings for all cells."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.core import catalog
from demo.core.spec import OPTIONS, TEXT_GENERATION, BadInput, RunSpec, without_meaning

AXES = {"checkpoints": "checkpoint", "batch_sizes": "batch_size", "modes": "mode", "dtypes": "dtype"}
"""A grid's lists, and the field of a spec that each of them fills."""
SETTINGS = tuple(name for name in OPTIONS if name not in AXES.values())
"""What is the same in every cell."""
PICTURE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
"""What the cells look at where no picture was given: a drawn scene, 4:3."""
MAX_CELLS = 2000


@dataclass(frozen=True)
class Grid:
    """Checkpoints x batch sizes x modes x dtypes, and the settings that all cells share."""

    checkpoints: tuple[str, ...]
    batch_sizes: tuple[int, ...] = (1,)
    modes: tuple[str, ...] = ("default",)
    dtypes: tuple[str, ...] = ("float32",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By the names of `SETTINGS`. `text` goes to the checkpoints that take one, `prompt` and `tokens` to those that
    generate text."""

    def specs(self, folders: bool = False) -> tuple[RunSpec, ...]:
        """One spec a cell, checkpoint by checkpoint, each once. Raises BadInput for a cell that can never run."""
        axes = [getattr(self, name) for name in AXES]
        if not all(axes):
            missing = next(name for name in AXES if not getattr(self, name))
            raise BadInput(f"The sweep has no {missing.replace('_', ' ')}. Give one at least.")
        axes = [_each_once(name, values) for name, values in zip(AXES, axes, strict=True)]
        count = math.prod(map(len, axes))
        if count > MAX_CELLS:
            raise BadInput(f"A sweep has at most {MAX_CELLS} cells. Given: {count}.")
        cells = (dict(zip(AXES.values(), values, strict=True)) for values in itertools.product(*axes))
        return tuple(dict.fromkeys(self._spec(cell, folders) for cell in cells))

    def _spec(self, cell: dict[str, Any], folders: bool) -> RunSpec:
        settings = dict(self.settings)
        known = catalog.find(cell["checkpoint"])
        if known is not None:
            settings.pop("task", None)  # the list's own checkpoints know theirs
            if not known.takes_text:
                settings.pop("text", None)
        task = known.task if known is not None else settings.get("task", "")
        if task != TEXT_GENERATION:
            for name in without_meaning(task):
                settings.pop(name, None)
        return catalog.make_spec(**cell, **settings, folders=folders)


PRESETS = {
    "published": Grid(
        tuple(checkpoint.id for checkpoint in catalog.PUBLISHED),
        (1, 4, 16),
        ("default", "reduce-overhead"),
        settings={"text": catalog.QUERIES},
    ),
    "smoke": Grid(
        tuple(checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled),
        settings={"prompt": catalog.PROMPT},
    ),
}
"""'published' is what the guide's tables hold, 'smoke' the checkpoints that ship with the project."""


def read_grid(given: Mapping[str, Any], where: str) -> Grid:
    """A grid from the lists and settings of a file or a form; a single value stands for a list of one.

    Raises BadInput for a name that means nothing; what the values mean is for `Grid.specs` to check.
    """
    allowed = (*AXES, *SETTINGS, "task")
    unknown = [name for name in given if name not in allowed]
    if unknown:
        raise BadInput(f"{where} has the entry {unknown[0]!r}, which means nothing. Allowed: {', '.join(allowed)}.")
    lists: dict[str, Any] = {"checkpoints": ()}
    for name in (name for name in AXES if name in given):
        lists[name] = tuple(given[name]) if isinstance(given[name], list | tuple) else (given[name],)
    return Grid(**lists, settings={name: given[name] for name in given if name not in AXES})


def _each_once(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    try:
        return tuple(dict.fromkeys(values))
    except TypeError:
        raise BadInput(f"The sweep's {name.replace('_', ' ')} must be single values, and no lists of them.") from None
