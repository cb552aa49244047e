"""Four languages: each says everything, and a visitor gets the right one."""

import dataclasses
import re
import string
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from fake_runner import FakeRunner
from page_support import handler
from samples import failed_result, full_result, measurement, ok_result, text_result

from demo.backend import failures
from demo.core import catalog
from demo.core.languages import ENGLISH, LANGUAGES, Language, choose
from demo.core.result import STATUSES, Failure, RunResult
from demo.core.spec import MODES, RunSpec
from demo.present import details, sentences
from demo.runs.forecast import Doubt
from demo.ui.html import results
from demo.ui.page import NUMBERS, Page
from demo.ui.tabs import table_tabs
from demo.ui.web.visitor_language import translations, written

ARABIC = LANGUAGES["ar"]
EVERY = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
HOSTILE = "<img src=x onerror=alert(1)>"


def placeholders(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


def tags(text: str) -> list[str]:
    return sorted(re.findall(r"</?\w+", text))


@EVERY
def test_every_text_is_there_with_the_placeholders_and_tags_of_the_english_one(language: Language) -> None:
    assert set(language.texts) == set(ENGLISH.texts)
    for key, text in ENGLISH.texts.items():
        assert placeholders(language.texts[key]) == placeholders(text), key
        assert tags(language.texts[key]) == tags(text), key
        assert language.texts[key].count("|") == text.count("|"), key  # between the parts of a text


def test_every_mode_status_doubt_step_preset_and_field_of_a_spec_has_its_text() -> None:
    keys = {f"mode_{mode.replace('-', '_')}" for mode in MODES} | {f"status_{status}" for status in STATUSES}
    keys |= {f"doubt_{doubt.replace(' ', '_')}" for doubt in get_args(Doubt)}
    keys |= {f"{what}_{step}" for step in results.STEPS for what in ("step", "doing")}
    keys |= set(details.FOLDS) | {field.name for field in dataclasses.fields(RunSpec)}
    keys |= {f"preset_{number}" for number in NUMBERS}
    assert keys <= set(ENGLISH.texts)


RESULTS = (
    full_result(),
    text_result(),
    failed_result(),
    ok_result(spec=dataclasses.replace(ok_result().spec, graph_break=True), with_break=measurement(0.0012)),
)
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


def latin(text: str) -> set[str]:
    """The words in Latin letters, single letters left out."""
    return set(re.findall(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]+", text))


def names(result: RunResult) -> set[str]:
    """The words of models, machines, versions and kernels: where nothing is mirrored they stand in no isolate."""
    profiles = [side.profile for side in (result.eager, result.compiled) if side is not None]
    parts = [part for part in (result.spec, result.environment, *profiles) if part is not None]
    return latin(" ".join(str(dataclasses.astuple(part)) for part in parts))


@EVERY
def test_sections_hold_no_english_but_what_is_quoted(language: Language) -> None:
    for result in RESULTS:
        for name, html in results.parts(result, language).items():
            reader = Own()
            reader.feed(html)
            english = latin(reader.text) - TERMS - names(result)
            assert bool(english) is (language is ENGLISH), (name, english)


@EVERY
def test_a_remedy_is_told_in_the_reader_s_language_and_a_sentence_without_a_text_is_quoted(language: Language) -> None:
    failure = Failure("compile", "no", "Eager works and was timed. Without freezing or mode lite it may work. Ask Ada.")
    found = results.failure(dataclasses.replace(failed_result(), failure=failure), language)
    assert language.html("remedy_eager_works") in found and language.quoted("Ask Ada.") in found
    assert language.html("remedy_without", settings="freezing or mode lite") in found


def test_what_every_failing_run_is_told_to_do_is_in_every_language() -> None:
    memory = torch.OutOfMemoryError("no room")
    told = [failures.load_refusal("google/gemma-2b", ConnectionError("no")).failure.remedy]
    for phase, error, asked in [
        ("time", memory, {"batch_size": 8}),
        ("time", memory, {"dtype": "float16"}),
        ("compile", RuntimeError("no"), {"compiler": "aot"}),
        ("compile", RuntimeError("no"), {"fullgraph": True, "mode": "lite"}),
        ("time", RuntimeError("no"), {}),
    ]:
        spec = catalog.make_spec("shapes-vit", **asked).on("cpu")
        told.append(failures.explain(error, phase, RunResult("one", "", "ok", spec))[1].remedy)
    quoted = [remedy for remedy in told if "\N{FIRST STRONG ISOLATE}" in sentences.remedy(remedy, LANGUAGES["ja"])]
    assert quoted == []


def test_values_cannot_become_html_in_any_language() -> None:
    for language in LANGUAGES.values():
        assert HOSTILE not in language.html("note_hub", named=HOSTILE)
        assert HOSTILE not in language.quoted(HOSTILE) + language.value(HOSTILE)


def test_the_address_decides_then_the_switch_then_the_browser() -> None:
    for query, cookie, accepted, code in [
        (None, None, None, "en"),
        (None, None, "ja,en;q=0.8", "ja"),
        (None, None, "fr-CH, fr;q=0.9, ja;q=0.7, ar-EG;q=0.4", "ja"),
        (None, None, "zh-TW", "zh-CN"),
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
        assert [text for key, text in texts.items() if key in marker] == [results.intro("shapes-vit", language)]
        assert texts["tab_run"] == language.texts["tab_run"]


def test_the_tabs_ask_for_the_visitors_language() -> None:
    language = ARABIC
    request: Any = SimpleNamespace(query_params={"lang": language.code}, cookies={}, headers={}, session_hash="one")
    choices, _, told = table_tabs.published_shown(table_tabs.FIRST_PUBLISHED, language)
    assert language.html("published_about") in told[-1] and choices["task"][0][0] == language.texts["choice_all"]
    page = Page(FakeRunner(lambda spec, image: ok_result(spec=spec)))
    tab = page.sweep_tab
    values = [field.value for field in tab.axes.values()]
    begun = handler(page, of=(tab.start_button, "click"))(None, *values, "pretrained", False, request=request)
    assert language.html("heat_press") in begun[tab.map]
    going = begun[tab.watched]
    list(handler(page, takes=tab.watched, only=[tab.status, tab.map])(going, request=request))
    ended = handler(page, takes=tab.watched, changes=tab.start_button)(going, request=request)
    assert language.html("sweep_done") in ended[tab.status]
    opened = handler(page, of=(tab.map, "select"))(going, request=request, data={"place": 0})
    assert language.html("section_pays") in opened
