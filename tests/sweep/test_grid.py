"""Grids: the specs of a sweep, and what is refused."""

import pytest

from demo.core import catalog
from demo.core.spec import TEXT_GENERATION, BadInput
from demo.sweep.grid import AXES, PRESETS, Grid, read_grid


def test_the_grids_task_is_for_the_checkpoints_that_are_not_in_the_list() -> None:
    grid = Grid(("shapes-vit", "somebody/detector"), settings={"task": "object-detection"})
    assert [spec.task for spec in grid.specs(folders=True)] == ["image-classification", "object-detection"]


def test_a_grid_is_every_combination_once_in_order() -> None:
    grid = Grid(("shapes-vit", "shapes-rtdetr", "shapes-vit"), (1, 4), ("default", "lite"), ("float32", "bfloat16"))
    cells = [(s.checkpoint, s.batch_size, s.mode, s.dtype) for s in grid.specs()]
    assert len(cells) == len(set(cells)) == 16
    assert cells[0] == ("shapes-vit", 1, "default", "float32")
    assert [cell[0] for cell in cells] == ["shapes-vit"] * 8 + ["shapes-rtdetr"] * 8


def test_the_presets_are_the_guides_table_and_the_bundled_checkpoints_with_a_prompt_that_no_other_grid_brings() -> None:
    specs = PRESETS["published"].specs()
    assert len(specs) == 12 * 3 * 2
    assert {spec.batch_size for spec in specs} == {1, 4, 16}
    assert {spec.mode for spec in specs} == {"default", "reduce-overhead"}
    assert [bool(spec.text) for spec in specs] == [spec.checkpoint == "google/owlvit-base-patch32" for spec in specs]
    smoke = PRESETS["smoke"].specs()
    assert [spec.checkpoint for spec in smoke] == [one.id for one in catalog.CHECKPOINTS if one.bundled]
    assert {spec.prompt for spec in smoke if spec.task == TEXT_GENERATION} == {catalog.PROMPT}
    with pytest.raises(BadInput, match="needs a prompt"):
        Grid(("shapes-gemma",)).specs()


def test_prompt_and_tokens_go_to_those_that_generate_text() -> None:
    names = ("shapes-vit", "shapes-gemma", "google/owlvit-base-patch32", "somebody/writer")
    asked = {"task": TEXT_GENERATION, "prompt": "The", "tokens": "9", "text": "a cat"}
    specs = [*Grid(names[:3], settings=asked).specs(), *Grid(names[3:], settings=asked).specs()]
    given = [(spec.prompt, spec.tokens, spec.text) for spec in specs]
    assert given == [("", 64, ()), ("The", 9, ()), ("", 64, ("a cat",)), ("The", 9, ("a cat",))]
    (picture,) = Grid(names[3:], settings={"task": "image-classification", "prompt": "The"}).specs()
    assert (picture.task, picture.prompt) == ("image-classification", "")


def test_a_grid_that_cannot_be_run_is_refused_with_a_sentence() -> None:
    for given, words in [
        ({"checkpoint": "shapes-vit"}, "'checkpoint', which means nothing"),
        ({}, "no checkpoints"),
        ({"checkpoints": ["shapes-vitt"]}, "Did you mean shapes-vit"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [0]}, "from 1 to 256"),
        ({"checkpoints": "shapes-vit", "modes": []}, "no modes"),
        (
            {"checkpoints": "shapes-vit", "batch_sizes": list(range(1, 257)), "modes": list("abcdefgh")},
            "at most 2000 cells. Given: 2048",
        ),
        ({name: list(range(1000)) for name in AXES}, "at most 2000 cells. Given: 1000000000000"),
        ({"checkpoints": ["shapes-vit", 3]}, "Unknown checkpoint '3'"),
        ({"checkpoints": [["shapes-vit"]]}, "checkpoints must be single values"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [{}]}, "batch sizes must be single values"),
    ]:
        with pytest.raises(BadInput, match=words):
            read_grid(given, "grid.yaml").specs()


def test_what_is_named_more_than_once_is_one_cell_and_counts_as_one() -> None:
    many = {"checkpoints": ["shapes-vit"], "batch_sizes": [1], "modes": ["default"], "dtypes": ["float32"]}
    assert len(read_grid({name: values * 1000 for name, values in many.items()}, "grid.yaml").specs()) == 1
