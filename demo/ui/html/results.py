"""The result pane before and after a run, as HTML. Its folds Why and Cost are the parts of `demo.present.details`, each
with the chart that it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from demo.core import catalog, scenes, stats
from demo.core import format as fmt
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
        asked=_asked(result, lang),
        kind=speedup.verdict,
        verdict=advice.worth(result, lang),
        why=advice.worth_why(result, lang),
        answer=sentences.headline_parts(result, lang) or ("", "", ""),
        certain=certain,
        arrow={"faster": "▲", "slower": "▼"}.get(speedup.verdict, ""),
        broken=sentences.break_parts(result, lang),
        broken_certain=result.break_cost is not None and result.break_cost.verdict in ("faster", "slower"),
        broken_interval=sentences.break_interval(result, lang),
        latencies={name: fmt.latency(one) for name, one in sentences.latencies(result).items() if one is not None},
        per="token" if result.spec.unit == "token" else "call",
        batch=result.spec.batch_size,
        ruler=ruler(speedup, certain, noise, lang, None if several else speedup.within, several),
        basis=sentences.interval(result, lang),
        floor=sentences.decided(result, lang) or lang.sentence(sentences.noise_floor(result, lang)),
        repeat=Markup(repeat),
        warnings=_warnings(result, lang),
    )


def _asked(result: RunResult, lang: Language) -> str:
    return f"{sentences.settings_line(result.spec, lang)} · {lang.plain_value(sentences.where(result))}"


def _warnings(result: RunResult, lang: Language) -> Markup:
    """Each caveat once, and a remedy for noise."""
    return drawn("results.warnings", lang, sentences.caveats(result, lang), actions.longer(result, lang))


def failure(result: RunResult, lang: Language) -> Markup:
    """A run without figures: what happened, with which settings, and what to do."""
    failed = result.failure
    message = lang.plain_quoted(failed.message) if failed else lang.plain("no_figures")
    remedy = sentences.remedy(failed.remedy, lang) if failed else lang.plain("run_again")
    way_out = Markup(lang.marked(remedy)) + actions.again(result.spec, failed.change if failed else {}, lang)
    title = sentences.status(result, lang)
    return _card(title, message, way_out, _asked(result, lang), lang) + _warnings(result, lang)


def refusal(title: str, english: str, lang: Language, way_out: str = "") -> Markup:
    """A card for a refused run: `title` is a key, `english` the program's own sentence, `way_out` HTML."""
    asked = lang.plain("not_started")
    return _card(lang.plain(title), lang.plain_quoted(english), Markup(way_out), asked, lang)


def problem(title: str, message: str, lang: Language, remedy: str = "", **values: object) -> Markup:
    """A card whose title, message and remedy are keys; `values` are the message's."""
    way_out = Markup(lang.html(remedy)) if remedy else Markup()
    return _card(lang.plain(title), lang.plain(message, **values), way_out, lang.plain("not_started"), lang)


def unexpected(lang: Language) -> Markup:
    """A card for an error that is in the log."""
    return problem("unexpected", "unexpected_words", lang, "unexpected_remedy")


def _card(title: str, message: str, remedy: Markup, kicker: str, lang: Language) -> Markup:
    return drawn("results.card", lang, title, message, remedy, kicker)


def checkpoint_note(checkpoint: Checkpoint | None, named: str, lang: Language) -> Markup:
    """Under the list: what is known of the chosen checkpoint."""
    if checkpoint is None:
        refused = catalog.refusal(named)
        told = lang.plain_quoted(refused) if refused else lang.plain("note_hub", named=named)
        return drawn("results.note", lang, told)
    facts = [lang.plain("note_bundled" if checkpoint.bundled else "note_from_hub")]
    if checkpoint.parameters:
        facts.append(lang.plain("note_parameters", count=fmt.parameters(checkpoint.parameters)))
    text, knows = checkpoint.task == TEXT_GENERATION, ""
    if not text:
        facts.append(lang.plain_value("{} × {} px".format(*reversed(checkpoint.input_size))))
    if checkpoint.drawn_only and text:
        knows = lang.plain("note_drawn_only_text")
    elif checkpoint.drawn_only:
        labels = lang.listed([lang.plain_quoted(label) for label in scenes.shapes(checkpoint)])
        knows = lang.composed("note_drawn_only", labels=labels)
    return drawn("results.facts", lang, facts, knows)


def note(key: str, lang: Language) -> Markup:
    """A text of the page in the manner of a note below a field."""
    return drawn("results.note", lang, lang.plain(key))


def mode_note(mode: str, lang: Language) -> Markup:
    key = f"mode_{mode.replace('-', '_')}"
    return drawn("results.note", lang, lang.plain(key if key in lang.texts else "mode_unknown"))


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
    basis = _basis(expected, checkpoint, lang)
    told = [lang.plain(f"doubt_{doubt.replace(' ', '_')}") for doubt in doubts]
    return drawn("results.forecast", lang, _expected(expected, lang), basis, told, query)


def _expected(expected: Forecast | None, lang: Language) -> str:
    """'About 12 s, about 512 MB of memory'. `_basis` says what the estimate is based on."""
    if expected is None:
        return lang.plain("forecast_unknown")
    time = lang.plain("about", value=sentences.rounded_duration(expected.seconds))
    if not expected.memory_bytes:
        return lang.capital(time)
    memory = lang.plain("about", value=fmt.size(expected.memory_bytes))
    return lang.capital(lang.composed("forecast_time_memory", time=time, memory=memory))


def _basis(expected: Forecast | None, checkpoint: Checkpoint | None, lang: Language) -> str:
    if expected is None:
        return ""
    if expected.basis == "parameters":
        known = fmt.parameters(checkpoint.parameters) if checkpoint is not None else ""
        return lang.plain("basis_parameters", parameters=known)
    return lang.plain("basis_same", count=expected.runs)


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
    """All parts, without their charts; the reruns are nothing but a chart."""
    told = parts(result, lang)
    return drawn(
        "results.whole",
        lang,
        [[told.get(name, "") for name in fold if name != "reruns"] for fold in details.FOLDS.values()],
    )


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
