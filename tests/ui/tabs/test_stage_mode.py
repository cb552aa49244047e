"""The presets of stage mode."""

from __future__ import annotations

from fake_runner import FakeRunner
from samples import ok_result

from demo.core import catalog
from demo.core.spec import RunSpec
from demo.ui.page import Page
from demo.ui.tabs import form, stage_mode


def test_a_preset_fills_the_form_with_a_valid_spec() -> None:
    page = Page(FakeRunner(lambda *_: ok_result()))
    values = {name: field.value for name, field in page.run_tab.form.inputs.items()}
    for gpu in [False, True]:
        for number in stage_mode.NUMBERS:
            chosen = stage_mode.presets(gpu, loadable=False)[number - 1].values
            assert set(chosen) <= set(values)
            spec, _ = form.read(values | chosen)
            assert spec == catalog.make_spec(**chosen)


def test_without_a_gpu_every_preset_works_offline() -> None:
    for preset in stage_mode.presets(gpu=False):
        found = catalog.find(preset.values["checkpoint"])
        assert found is not None and found.bundled


def test_the_full_size_segformer_needs_no_network_either() -> None:
    first = stage_mode.presets(gpu=True, loadable=False)[0]
    assert (first.values["checkpoint"], first.values["weights"]) == (stage_mode.SEGFORMER, "random")


def test_a_call_tells_what_was_asked_and_no_default() -> None:
    assert catalog.arguments(RunSpec("shapes-vit", "image-classification")) == {"checkpoint": "shapes-vit"}
    asked = {"batch_size": 4, "fullgraph": True, "precision": 0.02}
    assert catalog.arguments(RunSpec("a/b", "image-classification", **asked)) == {
        "checkpoint": "a/b",
        "task": "image-classification",
        **asked,
    }
