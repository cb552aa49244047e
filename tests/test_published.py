import math
from collections import Counter

import pytest

from demo import catalog, published
from demo.schema import PublishedRow


def test_all_rows_of_the_guide_are_here() -> None:
    rows = published.rows()
    assert len(rows) == 136
    assert Counter(row.subset for row in rows) == {"release": 102, "nightly": 18, "reduce-overhead": 16}


def test_the_first_and_the_last_row_are_the_guides() -> None:
    first, last = published.rows()[0], published.rows()[-1]
    assert first == PublishedRow(
        subset="release",
        gpu="A100",
        torch="2.0.1",
        mode="default",
        batch_size=1,
        task="image-classification",
        model="ViT",
        checkpoint="google/vit-base-patch16-224",
        eager_seconds=pytest.approx(9.325e-3),
        compiled_seconds=pytest.approx(7.584e-3),
    )
    assert last == PublishedRow(
        subset="reduce-overhead",
        gpu="T4",
        torch="2.1.0.dev",
        mode="reduce-overhead",
        batch_size=4,
        task="image-segmentation",
        model="MobileNet",
        checkpoint="google/deeplabv3_mobilenet_v2_1.0_513",
        eager_seconds=pytest.approx(78.311e-3),
        compiled_seconds=pytest.approx(50.983e-3),
    )


def test_out_of_memory_is_a_value() -> None:
    missing = [row for row in published.rows() if row.eager_seconds is None]
    assert {(row.subset, row.gpu, row.checkpoint, row.batch_size) for row in missing} == {
        ("release", "V100", "facebook/detr-resnet-50", 16),
        ("release", "T4", "facebook/detr-resnet-50", 16),
        ("nightly", "V100", "facebook/detr-resnet-50", 16),
        ("nightly", "T4", "facebook/detr-resnet-50", 16),
    }
    assert all(row.compiled_seconds is None and row.speedup is None for row in missing)


@pytest.mark.parametrize(
    ("gpu", "means"), [("A100", [1.449, 1.287, 1.222]), ("V100", [1.599, 1.221, 1.190]), ("T4", [1.203, 1.132, 1.157])]
)
def test_the_geometric_means_of_the_release_tables(gpu: str, means: list[float]) -> None:
    for batch_size, mean in zip((1, 4, 16), means, strict=True):
        ratios = [
            row.speedup
            for row in published.rows()
            if (row.subset, row.gpu, row.batch_size) == ("release", gpu, batch_size) and row.speedup is not None
        ]
        assert math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) == pytest.approx(mean, abs=0.0005)


def test_every_row_names_a_checkpoint_of_the_catalogue_with_its_task_and_family() -> None:
    for row in published.rows():
        known = catalog.find(row.checkpoint)
        assert known is not None
        assert (known.task, known.family) == (row.task, row.model)


def test_every_checkpoint_of_the_guide_has_rows() -> None:
    guides = {checkpoint.id for checkpoint in catalog.CHECKPOINTS if not checkpoint.bundled}
    assert {row.checkpoint for row in published.rows()} == guides


def test_every_row_has_its_source() -> None:
    assert published.SOURCE.startswith("https://huggingface.co/docs/transformers/")


def test_a_checkpoint_has_one_row_for_each_gpu_and_torch() -> None:
    rows = published.for_checkpoint("facebook/detr-resnet-50", batch_size=4)
    assert Counter((row.gpu, row.torch) for row in rows) == {
        (gpu, torch): 1 for gpu in ("A100", "V100", "T4") for torch in ("2.0.1", "2.1.0.dev")
    }


def test_a_mode_selects_its_rows() -> None:
    rows = published.for_checkpoint("microsoft/resnet-50", mode="reduce-overhead")
    assert [(row.gpu, row.subset) for row in rows] == [("A100", "reduce-overhead"), ("T4", "reduce-overhead")]


@pytest.mark.parametrize(("id", "batch_size"), [("shapes-vit", 1), ("google/owlvit-base-patch32", 4), ("no/such", 1)])
def test_what_the_guide_lacks_has_no_rows(id: str, batch_size: int) -> None:
    assert published.for_checkpoint(id, batch_size) == []


def test_the_guides_repeated_row_is_shown_as_published() -> None:
    nightly = {
        row.gpu: (row.eager_seconds, row.compiled_seconds)
        for row in published.for_checkpoint("microsoft/beit-base-patch16-224-pt22k-ft22k", batch_size=16)
        if row.subset == "nightly"
    }
    assert nightly["T4"] == nightly["A100"]


def test_changing_the_list_that_was_given_out_changes_nothing() -> None:
    published.rows().clear()
    assert len(published.rows()) == 136
