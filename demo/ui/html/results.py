"""The result pane before and after a run, as HTML. Its folds Why and Cost are the parts of `demo.present.details`, each
with the chart that it has."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from demo.core import catalog, format as fmt, stats
from demo.core.catalog import Checkpoint
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import TEXT_GENERATION
from demo.present import advice, charts, details, sentences
from demo.present.guide_comparison import compare_with_guide
from demo.runs.forecast import Forecast
from demo.store import published
from demo.ui.html import actions, outputs_html
from demo.ui.html.elements import drawn, ruler


def intro(checkpoint: str, lang: Language) -> Markup:
    """Before the first run: the question, and what Run will do."""
    return drawn("results.intro", lang, sentences.short(checkpoint), catalog.refusal(checkpoint))


_RELATIVE_OF_TASK = {
    "image-classification": "google/vit-base-patch16-224",
    "image-segmentation": "nvidia/segformer-b0-finetuned-ade-512-512",
    "object-detection": "facebook/detr-resnet-50",
}


def published_for(checkpoint: str, task: str, lang: Language) -> tuple[str, str]:
    """The checkpoint whose published rows are shown, '' for a text model, and a sentence on that as plain text."""
    if any(row.checkpoint == checkpoint for row in published.rows()):
        return checkpoint, lang.plain("published_own", model=sentences.short(checkpoint), year=2023)
    if task == TEXT_GENERATION:
        return "", lang.plain("published_none")
    relative = _RELATIVE_OF_TASK[task]
    names = {"model": sentences.short(checkpoint), "relative": sentences.short(relative)}
    return relative, lang.plain("published_kin", **names, year=2023)


def published_note(checkpoint: str, task: str, lang: Language) -> Markup:
    _, sentence = published_for(checkpoint, task, lang)
    return drawn("results.note", lang, sentence, "figure-title")


def headline(result: RunResult, lang: Language, repeat: str = "") -> Markup:
    """The verdict: whether compiling is worth it, the speed-up as a large figure, what it rests on, and the caveats.

    Of a run with added graph breaks what they cost is the large figure; the rest is of the model without them.
    `repeat` is HTML beside the interval.
    """
    outcome, speedup = sentences.outcome(result), result.speedup
    if outcome is None or speedup is None:
        return failure(result, lang)
    repeats = result.as_processes()
    several = [one.within.ratio for one in repeats] if len(repeats) > 1 else []
    noise, certain = stats.noise_floor(result.pooled_control), outcome in ("faster", "slower")
    return drawn(
        "results.headline",
        lang,
        result,
        advice.worth(result, lang),
        advice.worth_why(result, lang),
        certain=certain,
        ruler=ruler(speedup, certain, noise, lang, None if several else speedup.within, several),
        repeat=Markup(repeat),
        longer=actions.longer(result, lang),
    )


def failure(result: RunResult, lang: Language) -> Markup:
    """A run without figures: what happened, with which settings, and what to do."""
    failed = result.failure
    message = lang.plain_quoted(failed.message) if failed else lang.plain("no_figures")
    remedy = sentences.remedy(failed.remedy, lang) if failed else lang.plain("run_again")
    way_out = Markup(lang.marked(remedy)) + actions.again(result.spec, failed.change if failed else {}, lang)
    asked = f"{sentences.settings_line(result.spec, lang)} · {lang.plain_value(sentences.where(result))}"
    card = drawn("results.card", lang, sentences.status(result, lang), message, way_out, asked)
    return card + drawn("results.warnings", lang, result, actions.longer(result, lang))


def refusal(title: str, english: str, lang: Language, way_out: str = "") -> Markup:
    """A card for a refused run: `title` is a key, `english` the program's own sentence, `way_out` HTML."""
    return drawn("results.card", lang, lang.plain(title), lang.plain_quoted(english), Markup(way_out))


def problem(title: str, message: str, lang: Language, remedy: str = "", **values: object) -> Markup:
    """A card whose title, message and remedy are keys; `values` are the message's."""
    way_out = Markup(lang.html(remedy)) if remedy else ""
    return drawn("results.card", lang, lang.plain(title), lang.plain(message, **values), way_out)


def checkpoint_note(checkpoint: Checkpoint | None, named: str, lang: Language) -> Markup:
    """Under the list: what is known of the chosen checkpoint."""
    if checkpoint is None:
        refused = catalog.refusal(named)
        told = lang.plain_quoted(refused) if refused else lang.plain("note_hub", named=named)
        return drawn("results.note", lang, told)
    shapes = catalog.drawn_shapes(checkpoint) if checkpoint.drawn_only and checkpoint.task != TEXT_GENERATION else ()
    return drawn("results.facts", lang, checkpoint, lang.listed([lang.plain_quoted(shape) for shape in shapes]))


def note(key: str, lang: Language) -> Markup:
    """A text of the page in the manner of a note below a field."""
    return drawn("results.note", lang, lang.plain(key))


def mode_note(mode: str, lang: Language) -> Markup:
    key = f"mode_{mode.replace('-', '_')}"
    return note(key if key in lang.texts else "mode_unknown", lang)


def forecast(
    expected: Forecast | None,
    checkpoint: Checkpoint | None,
    doubts: Iterable[str],
    lang: Language,
    query: str = "",
) -> Markup:
    """Beside the Run button: an estimate of time and memory, its basis, and doubts about the choice.

    `query` is that of a link to the form's values, which copy.js copies.
    """
    told, basis = lang.plain("forecast_unknown"), ""
    if expected is not None:
        told = lang.plain("about", value=sentences.rounded_duration(expected.seconds))
        basis = lang.plain("basis_same", count=expected.runs)
        if expected.basis == "parameters" and checkpoint is not None:
            basis = lang.plain("basis_parameters", parameters=fmt.parameters(checkpoint.parameters))
        if expected.memory_bytes:
            memory = lang.plain("about", value=fmt.size(expected.memory_bytes))
            told = lang.composed("forecast_time_memory", time=told, memory=memory)
    words = [lang.plain(f"doubt_{doubt.replace(' ', '_')}") for doubt in doubts]
    return drawn("results.forecast", lang, lang.capital(told), basis, words, query)


def no_forecast(sentence: str, lang: Language) -> Markup:
    """Instead of a forecast: why the form's current values would be refused."""
    return drawn("results.no_forecast", lang, sentence)


# The folds


def guide_chart(result: RunResult, lang: Language) -> Any:
    """What `beside` says as bars; None where that is ''."""
    found = compare_with_guide(result, published.rows(), lang)
    return None if found is None else charts.run_and_guide(result, found, lang)


CHARTS = {"calls": charts.trace, "pays": charts.break_even, "beside": guide_chart}
"""The makers of the Plotly figures, by the names of the parts; a maker gives None where a result has none."""


def parts(result: RunResult, lang: Language) -> dict[str, Markup]:
    """The HTML of each part that has something to tell, by its name; an untried size has a button that tries it."""
    button = Markup() if result.another_sizes else actions.again(result.spec, {"another_size": True}, lang)
    return {
        name: drawn("results.part", lang, part, button if name == "another_size" else "")
        for fold in details.tree(result, lang).values()
        for name, part in fold.items()
    }


def whole(result: RunResult, lang: Language) -> Markup:
    """All parts, without their charts."""
    told = parts(result, lang)
    folds = [[told[name] for name in fold if name in told] for fold in details.FOLDS.values()]
    return drawn("results.whole", lang, folds)


def opened(result: RunResult, lang: Language) -> Markup:
    """A run on one page, as a pressed cell or row of a table shows it."""
    if result.failure is not None or result.speedup is None:
        return failure(result, lang) + whole(result, lang)
    return headline(result, lang) + outputs_html.shown(result, lang) + whole(result, lang)


def beside(result: RunResult, lang: Language) -> Markup:
    """The run beside the guide's rows; '' if the guide has none for its checkpoint, or the run has no speed-up."""
    found = compare_with_guide(result, published.rows(), lang)
    if found is None:
        return Markup()
    return drawn("results.beside", lang, found)
