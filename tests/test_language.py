"""Four languages: each says everything, each lets figures run from left to right, and a visitor gets the right one."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import string
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from fake_runner import FakeRunner
from measured_tables import write
from page_support import handler
from samples import failed_result, full_result, measurement, ok_result, text_result

from demo.core import stats
from demo.core.languages import ENGLISH, LANGUAGES, Language, choose
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost, CompiledFirst, GraphBreak
from demo.core.outputs import EndToEnd, Predictions
from demo.core.result import STATUSES, Progress, RunResult
from demo.core.spec import MODES, RunSpec
from demo.core.stats import Interval
from demo.present import charts, several_runs
from demo.runs.doubts import Doubt
from demo.runs.forecast import SweepForecast
from demo.store import measured, published
from demo.sweep.cells import Cell
from demo.ui.html import guide_comparison_html, outputs_html, progress, results, sections, sweep_status
from demo.ui.html.heatmap import heatmap
from demo.ui.page import Page
from demo.ui.tabs import published_tab as published_tab
from demo.ui.tabs import stage_mode
from demo.ui.web.visitor_language import label, translations, written

ARABIC = LANGUAGES["ar"]
EVERY = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
HOSTILE = "<img src=x onerror=alert(1)>"
ISOLATED = re.compile("\N{LEFT-TO-RIGHT ISOLATE}[^\N{POP DIRECTIONAL ISOLATE}]*\N{POP DIRECTIONAL ISOLATE}")
TIMING = Progress(
    "time", 0.6, 3.0, 2.0, calls=29, eager_seconds=0.002, compiled_seconds=0.001, speedup=Interval(2.0, 1.97, 2.04)
)
RESULTS = {
    "faster": ok_result(),
    "slower": ok_result(compiled=measurement(0.004)),
    "full": full_result(),
    "a batch": ok_result(spec=dataclasses.replace(ok_result().spec, batch_size=4)),
    "failed": failed_result(),
    "a graph break": ok_result(
        spec=dataclasses.replace(ok_result().spec, graph_break=True),
        with_break=measurement(0.0012),
    ),
}


def placeholders(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


def tags(text: str) -> list[str]:
    return sorted(re.findall(r"</?\w+", text))


class Loose(HTMLParser):
    """Collects the text that stands in no element with `dir="ltr"`."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[tuple[str, bool]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("img", "input", "br", "wbr"):
            self._open.append((tag, ("dir", "ltr") in attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if not any(ltr for _, ltr in self._open):
            self.text += f"{data}\n"


def loose(page: str) -> str:
    reader = Loose()
    reader.feed(page)
    return reader.text


# ---- the texts


@EVERY
def test_no_text_is_missing_and_none_is_superfluous(language: Language) -> None:
    assert set(language.texts) == set(ENGLISH.texts)


@EVERY
def test_placeholders_and_tags_are_the_same_in_all_languages(language: Language) -> None:
    for key, text in ENGLISH.texts.items():
        assert placeholders(language.texts[key]) == placeholders(text), key
        assert tags(language.texts[key]) == tags(text), key


def test_no_other_language_was_left_in_english() -> None:
    names = {"preset_3", "graph_break", "channels_last", "asked_channels_last", "forecast_time", "row_cpu", "head_p95"}
    names |= {
        "agreement",
        "sentence",
        "gpu",
        "row_cudagraphs",
        "compared_torch",
        "compared_transformers",
        "beside_setting",
        "setting",
        "freezing",
        "asked_freezing",
        "asked_dynamic",
    }
    for language in LANGUAGES.values():
        if language is not ENGLISH:
            same = {key for key, text in language.texts.items() if text == ENGLISH.texts[key]}
            assert same <= names, language.code


def test_every_number_in_an_arabic_text_stands_in_an_isolate() -> None:
    product = {"obstacle_compiler"}  # C++ and its kin hold no figure
    for key, text in ARABIC.texts.items():
        bare = re.sub(r"\{\w+\}|<[^>]+>", "", ISOLATED.sub("", text))
        assert key in product or not re.search(r"\d", bare), key


def test_every_mode_status_doubt_step_and_preset_has_its_text() -> None:
    keys = {f"mode_{mode.replace('-', '_')}" for mode in MODES} | {f"status_{status}" for status in STATUSES}
    keys |= {f"doubt_{doubt.replace(' ', '_')}" for doubt in get_args(Doubt)}
    keys |= {f"{what}_{step}" for step in progress.STEPS for what in ("step", "doing")}
    keys |= set(sections.FOLDS)
    assert keys <= set(ENGLISH.texts)
    titles = [preset.title for preset in stage_mode.presets(gpu=False)]
    assert titles == [ENGLISH.texts[f"preset_{number}"] for number in stage_mode.NUMBERS]


def test_a_label_that_no_language_knows_is_refused() -> None:
    with pytest.raises(KeyError):
        label("no such text")


# ---- sentences about a result


BROKEN = dataclasses.replace(ok_result().spec, graph_break=True)
ANSWERS = {
    "full": full_result(),
    "a CPU": ok_result(),
    "slower": ok_result(compiled=measurement(0.004)),
    "no graph": ok_result(compilation=Compilation(1.0, "cold", 0)),
    "graphs": ok_result(compilation=Compilation(1.0, "cold", 3)),
    "breaks": ok_result(compilation=Compilation(1.0, "cold", 3, graph_breaks=(GraphBreak("a", "b"),) * 2)),
    "fallbacks": ok_result(compilation=Compilation(1.0, "cold", 1, fallbacks=(GraphBreak("a", "b"),) * 2)),
    "compiled first": ok_result(
        compilation=Compilation(1.0, "cold", 1, compiled_first=CompiledFirst(2, (GraphBreak("a", "b"),), "a lock")),
    ),
    **{
        f"a break, {seconds}": ok_result(spec=BROKEN, with_break=measurement(seconds))
        for seconds in (0.0008, 0.001, 0.00125)
    },
    "a break, noisy": ok_result(
        spec=BROKEN,
        with_break=measurement(0.001),
        compilation=Compilation(1.0, "cold", 2, recompiles_while_timing=1),
    ),
    "warm": ok_result(compilation=Compilation(1.0, "warm", 1, warm=CompileCost(1.0, {}))),
    "busy": ok_result(machine_states=(HostSample(0.0, 0.3, None),), end_to_end=EndToEnd(0.001, 0.0, 0.0)),
    "text": text_result(end_to_end=EndToEnd(0.001, 0.0, 0.0)),
    "idle": ok_result(machine_states=(HostSample(0.0, 0.0, None),), end_to_end=EndToEnd(0.9, 0.0, 0.0)),
}


SECTIONS = [section for parts in sections.FOLDS.values() for section in parts]


TERMS = set(
    "torch compile eager inductor dynamo AOTAutograd Python Triton transformers profiler roofline Roofline graph graphs"
    " break event context float32 default channels last CUDA GPU CPU NVML JSON p95 ms min kB MB GB MHz"
    " Freezing aot max autotune generate".split()
)
"""What every language writes in Latin letters: names, units, code words."""


class Own(HTMLParser):
    """Collects the text that is of the page's own language: no quoted English, no code, no value in an isolate."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[bool] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("img", "input", "br", "wbr"):
            self._open.append(("lang", "en") in attrs or tag in ("code", "bdi"))

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self._open):
            self.text += f"{data}\n"


def bodies(result: RunResult, language: Language) -> dict[str, str]:
    """The parts of the folds by name, as HTML."""
    return {section.name: html for section in SECTIONS if (html := section.html(result, language))}


def latin(text: str) -> set[str]:
    """The words in Latin letters, single letters left out."""
    return set(re.findall(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]+", text))


def names(result: RunResult) -> set[str]:
    """The words of models, machines, versions and kernels: where nothing is mirrored they stand in no isolate."""
    profiles = [
        side.profile for side in (result.eager, result.compiled) if side is not None and side.profile is not None
    ]
    kernels = [kernel.name for profile in profiles for kernel in profile.longest]
    known = dataclasses.astuple(result.environment) if result.environment else ()
    return latin(" ".join(map(str, (*dataclasses.astuple(result.spec), *known, *kernels))))


@EVERY
def test_sections_and_figures_hold_no_english_but_what_is_quoted(language: Language) -> None:
    for result in (RESULTS | ANSWERS).values():
        for name, page in bodies(result, language).items():
            reader = Own()
            reader.feed(page)
            english = latin(reader.text) - TERMS - names(result)
            if language is ENGLISH:
                assert english, name  # so the test would see it
            else:
                assert english == set(), name


def test_numbers_of_arabic_sections_and_figures_run_from_left_to_right() -> None:
    for result in (RESULTS | ANSWERS).values():
        for name, page in bodies(result, ARABIC).items():
            assert not re.search(r"\d", loose(page)), (name, loose(page))


GUIDE_RUN = full_result(
    spec=dataclasses.replace(
        full_result().spec, checkpoint="facebook/detr-resnet-50", task="object-detection", batch_size=3, mode="lite"
    )
)
"""Of a checkpoint that the guide has, at a batch size and in a mode that it has not."""


def drawn(figure: Any) -> list[str]:
    """Every text of a figure, without tags; a line of its source is one."""
    axis, notes = figure.layout.yaxis.ticktext or (), [note.text for note in figure.layout.annotations]
    found = [figure.layout.title.text, *axis, *(line for note in notes for line in note.split("<br>"))]
    for trace in figure.data:
        found += [] if trace.hoverinfo == "skip" else [trace.name, *trace.hovertemplate.split("<extra>")]
    return [html.unescape(re.sub(r"<[^>]+>|%\{[^}]*\}", " ", text)) for text in found]


@EVERY
def test_the_figures_of_a_result_hold_no_english(language: Language) -> None:
    outlier = dataclasses.replace(measurement(0.002), wall_seconds=(*measurement(0.002).wall_seconds, 1.0))
    crashed = failed_result(status="crashed", eager=measurement(0.5), compiled=None)
    results_drawn = [*RESULTS.values(), GUIDE_RUN, ok_result(eager=outlier), ok_result(status="failed", compiled=None)]
    for result in (*results_drawn, crashed):
        found = [charts.latency_bars(result, language), guide_comparison_html.chart(result, language)]
        found += [section.figure(result, language) for section in SECTIONS if section.figure]
        slower = dataclasses.replace(result, eager=measurement(0.5))
        found.append(several_runs.calls_over_time([result, slower], language))
        found.append(several_runs.reruns(result, [1.1, 1.2, 1.3], stats.Interval(1.2, 1.1, 1.3), language))
        for figure in filter(None, found):
            told = drawn(figure)
            english = latin(" ".join(told)) - TERMS - names(result) - {"Transformers", "A100", "V100", "T4"}
            assert bool(english) is (language is ENGLISH), english
            assert language is not ARABIC or not [line for line in told if mixed(line)], told


def mixed(line: str) -> bool:
    """Whether a figure stands bare in a line of Arabic, where its sign or unit would change sides."""
    return bool(
        re.search("[\u0600-\u06ff]", line) and re.search(r"\d", re.sub(r"%\{[^}]*\}", "", ISOLATED.sub("", line)))
    )


def test_every_field_of_a_spec_is_called_by_one_name() -> None:
    assert {field.name for field in dataclasses.fields(RunSpec)} <= set(ENGLISH.texts)


# ---- direction


@EVERY
def test_english_sentences_inside_another_language_are_marked_as_english(language: Language) -> None:
    page = results.failure(failed_result(), language)
    assert ('<span lang="en" dir="ltr">' in page) is (language is not ENGLISH)
    told = sections.whole(ok_result(), language)
    assert ('<span lang="en" dir="ltr">' in told) is (language is not ENGLISH)
    assert ('<span lang="en" dir="ltr">' in outputs_html.shown(ok_result(), language)) is (language is not ENGLISH)


@EVERY
def test_what_the_models_see_is_told_in_the_visitors_language(language: Language) -> None:
    fixtures = Path(__file__).with_name("fixtures")
    for name in ("result_v1", "detection", "segmentation"):
        result = RunResult.from_json(json.loads((fixtures / f"{name}.json").read_text()))
        assert result.predictions is not None and result.image is not None
        gone = dataclasses.replace(result, image=dataclasses.replace(result.image, preview_jpeg="none"))
        other = dataclasses.replace(result, predictions=result.predictions | {"compiled": Predictions(boxes=())})
        labels = latin(str(result.predictions)) | latin(result.image.name)
        for one in (result, gone, *([other] if name == "detection" else [])):
            page = outputs_html.shown(one, language)
            spoken = " ".join(re.findall(r'(?:alt|aria-label)="([^"]*)"', page))
            english = (own_words(page) | latin(spoken)) - labels - TERMS
            assert bool(english) is (language is ENGLISH), english


@EVERY
def test_values_cannot_become_html_in_any_language(language: Language) -> None:
    assert HOSTILE not in language.html("note_hub", named=HOSTILE)
    assert HOSTILE not in language.quoted(HOSTILE) + language.value(HOSTILE)


# ---- who hears which


def test_the_address_decides_then_the_switch_then_the_browser() -> None:
    for query, cookie, accepted, code in [
        (None, None, None, "en"),
        (None, None, "ja,en;q=0.8", "ja"),
        (None, None, "fr-CH, fr;q=0.9, ar-EG;q=0.4, ja;q=0.7", "ja"),
        (None, None, "zh-TW", "zh-CN"),
        (None, None, "fr, ja;q=0, *;q=0.5", "en"),
        (None, None, "ja;q=much", "en"),
        (None, "ar", "ja", "ar"),
        ("ja", "ar", "zh-CN", "ja"),
        ("zh", None, None, "zh-CN"),
        ("tlh", "ar", "ja", "en"),
        (None, "<script>", "ja", "en"),
        ("", "", "ar", "ar"),
    ]:
        assert choose(query, cookie, accepted).code == code


def test_what_the_page_holds_at_first_is_handed_to_the_browser_in_every_language() -> None:
    marker = written(lambda language: results.intro("shapes-vit", language))
    for code, language in LANGUAGES.items():
        texts = translations().translations[code]
        held = [text for key, text in texts.items() if key in marker]
        assert held == [results.intro("shapes-vit", language)]
        assert texts["run"] == language.texts["run"]


def own_words(page: str) -> set[str]:
    """The Latin words of a page that are neither quoted nor a name."""
    reader = Own()
    reader.feed(page)
    return latin(reader.text) - TERMS - {"OOM", "CSV", "speed", "up"}


@EVERY
def test_a_sweep_is_told_in_the_visitors_language(language: Language) -> None:
    spec = ok_result().spec
    results = [ok_result(), ok_result(compiled=measurement(0.004)), failed_result(), None, None]
    specs = [dataclasses.replace(spec, batch_size=2**place) for place in range(len(results))]
    cells = [
        Cell(one, result and dataclasses.replace(result, spec=one)) for one, result in zip(specs, results, strict=True)
    ]
    guess = sweep_status.guess(SweepForecast(2, 90.0, 1), language)
    doing = progress.doing(TIMING, language)
    pages = [
        sweep_status.opening(language),
        sweep_status.status("running", cells, 90.0, guess + doing, language),
        sweep_status.status("done", cells[:3], None, sweep_status.summary(cells[:3], language), language),
        heatmap(cells, language, 3, 0.4),
    ]
    for page in pages:
        english = own_words(page) - names(ok_result()) - {"batch"}
        assert bool(english) is (language is ENGLISH), english
        assert language is not ARABIC or not re.search(r"\d", loose(page)), loose(page)
    assert language.html("heat_not_run") in pages[-1] and language.html("sweep_guess", guessed=1, cells=2) in pages[1]


@EVERY
def test_the_published_tab_is_told_in_the_visitors_language(
    language: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    write(tmp_path / "h200.csv", {})
    (tmp_path / "broken.csv").write_text("nothing")
    tables = published.tables()
    own = [row for row in tables.rows if row.measured]
    held = latin(" ".join(f"{row.model} {row.checkpoint} {row.gpu} {row.mode} {row.torch}" for row in tables.rows))
    held |= {
        "float32",
        "Eager",
        "reduce",
        "overhead",
        "https",
        *latin(" ".join(one.where for one in published.sources())),
    }
    for rows in (tables.rows[:20], own * 2):
        asked = (published_tab._scope(rows, rows[:1], language), published_tab._table(rows, tables.problems, language))
        for page in asked:
            assert bool(own_words(page) - held) is (language is ENGLISH), own_words(page) - held
            assert language is not ARABIC or not re.search(r"\d", loose(page)), loose(page)
    assert (language.html("published_measured") in asked[1]) is True
    lists = published_tab._choices(tables.rows, "", language)
    assert all(choices[0] == (language.texts["choice_all"], "") for choices in lists.values())
    assert (language.plain("published_own_gpu", gpu="H200"), "H200") in lists["gpu"]


@EVERY
def test_the_tabs_ask_for_the_visitors_language(language: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    request: Any = SimpleNamespace(query_params={"lang": language.code}, cookies={}, headers={}, session_hash="one")
    told = published_tab.shown("release", "A100", "", "", "", request)
    assert language.html("published_about") in told[-1] and told[3]["choices"][0][0] == language.texts["choice_all"]
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)))
    tab = page.sweep_tab
    values = [field.value for field in tab.axes.values()]
    begun = handler(page, of=(tab.start_button, "click"))(None, *values, "pretrained", False, request=request)
    assert language.html("heat_press") in begun[tab.map]
    going = begun[tab.watched]
    following = handler(page, takes=tab.watched, only=[tab.status, tab.map])
    shown = [status for status, _ in following(going, request=request)]
    assert all(language.html("sweep_running") in status for status in shown)
    ended = handler(page, takes=tab.watched, changes=tab.start_button)(going, request=request)
    assert language.html("sweep_done") in ended[tab.status]
    opened = handler(page, of=(tab.map, "select"))(going, request=request, data={"place": 0})
    assert language.html("section_pays") in opened
