"""The presets of stage mode."""

from fake_runner import FakeRunner
from samples import ok_result

from demo.core import catalog
from demo.ui.page import Page
from demo.ui.tabs import form, stage_mode


def test_a_preset_fills_the_form_with_a_valid_spec() -> None:
    page = Page(FakeRunner(lambda *_: ok_result()))
    values = {name: field.value for name, field in page.run_tab.form.inputs.items()}
    for gpu in [False, True]:
        for number in stage_mode.NUMBERS:
            chosen = stage_mode.presets(gpu, loadable=False)[number - 1]
            assert set(chosen) <= set(values)
            spec, _ = form.read(values | chosen)
            assert spec == catalog.make_spec(**chosen)


def test_without_a_gpu_every_preset_works_offline() -> None:
    for preset in stage_mode.presets(gpu=False):
        found = catalog.find(preset["checkpoint"])
        assert found is not None and found.bundled


def test_the_full_size_segformer_needs_no_network_either() -> None:
    first = stage_mode.presets(gpu=True, loadable=False)[0]
    assert (first["checkpoint"], first["weights"]) == (stage_mode.SEGFORMER, "random")
