"""The result pane before and after a run, as HTML. Every text from outside is escaped, by `esc` or by `Language`."""

from __future__ import annotations

from collections.abc import Iterable

from demo.core import catalog, scenes, stats
from demo.core import format as fmt
from demo.core.catalog import Checkpoint
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import TEXT_GENERATION
from demo.core.speedup import Speedup
from demo.present import advice, sentences
from demo.runs.forecast import Forecast
from demo.store import published
from demo.ui.html import actions
from demo.ui.html.elements import esc, lane_name, ruler


def intro(checkpoint: str, lang: Language) -> str:
    """Before the first run: the question, and what Run will do."""
    refused = catalog.refusal(checkpoint)
    title = lang.html("question_no_model") if refused else lang.html("question", model=sentences.short(checkpoint))
    lead = lang.quoted(refused) if refused else lang.html("question_lead")
    return (
        f'<section class="question"><p class="kicker">{lang.html("before_the_run")}</p>'
        f'<h2 class="display">{title}</h2><p class="lead">{lead}</p></section>'
    )


_RELATIVES = {
    "shapes-vit": "google/vit-base-patch16-224",
    "shapes-segformer": "nvidia/segformer-b0-finetuned-ade-512-512",
    "shapes-rtdetr": "facebook/detr-resnet-50",
}
_RELATIVE_OF_TASK = {
    "image-classification": "google/vit-base-patch16-224",
    "image-segmentation": "nvidia/segformer-b0-finetuned-ade-512-512",
    "object-detection": "facebook/detr-resnet-50",
}


def published_for(checkpoint: str, task: str, lang: Language) -> tuple[str, str]:
    """The checkpoint whose published rows are shown, '' for a text model, and a sentence on that as HTML."""
    if any(row.checkpoint == checkpoint for row in published.rows()):
        return checkpoint, lang.html("published_own", model=sentences.short(checkpoint), year=2023)
    if task == TEXT_GENERATION:
        return "", lang.html("published_none")
    relative = _RELATIVES.get(checkpoint) or _RELATIVE_OF_TASK[task]
    kin = "published_kin" if checkpoint in _RELATIVES else "published_best_known"
    return relative, lang.html(kin, model=sentences.short(checkpoint), relative=sentences.short(relative), year=2023)


def published_note(checkpoint: str, task: str, lang: Language) -> str:
    _, sentence = published_for(checkpoint, task, lang)
    return f'<p class="figure-title">{sentence}</p>'


def headline(result: RunResult, lang: Language, repeat: str = "") -> str:
    """The verdict: whether compiling is worth it, the speed-up as a large figure, what it rests on, and the caveats.

    Of a run with added graph breaks what they cost is the large figure; the rest is of the model without them.
    `repeat` is HTML beside the interval.
    """
    outcome, speedup = sentences.outcome(result), result.speedup
    if outcome is None or speedup is None:
        return failure(result, lang)
    arrow = {"faster": "▲", "slower": "▼"}.get(speedup.verdict, "")
    mark = f' <span class="arrow" aria-hidden="true">{arrow}</span>' if arrow else ""
    answer = _answer(sentences.headline_parts(result, lang) or ("", "", ""), outcome, lang, mark)
    verdict, why = advice.worth(result, lang), advice.worth_why(result, lang)
    worth = f'<h2 class="verdict">{lang.marked(verdict)}</h2>' if verdict else ""
    start = f'<p class="start">{lang.marked(lang.sentence(why))}</p>' if why else ""
    latencies = " → ".join(
        f"<span>{lane_name(variant, lang)} <b>{lang.value(fmt.latency(seconds))}</b></span>"
        for variant, seconds in sentences.latencies(result).items()
        if seconds is not None
    )
    speed = f'<p class="speed">{answer}</p>'
    basis = lang.marked(lang.sentence(sentences.interval(result, lang)))
    floor = lang.marked(sentences.decided(result, lang) or lang.sentence(sentences.noise_floor(result, lang)))
    return (
        f'<section class="headline {speedup.verdict}" role="status"><p class="kicker">{_asked(result, lang)}</p>'
        f"{worth}{start}{_break_cost(result, lang) or speed}"
        f'<p class="latencies"><span class="pair"{lang.ltr}>{latencies}</span>'
        f'<span class="per">{_per_call(result, lang)}</span></p>'
        f"{_without_break(result, answer, lang)}{_ruler(result, speedup, outcome, lang)}"
        f'<p class="interval">{basis} <span class="floor">{floor}</span>{repeat}</p>'
        f"{warnings(result, lang)}</section>"
    )


def _ruler(result: RunResult, speedup: Speedup, outcome: sentences.Outcome, lang: Language) -> str:
    """The interval with, in it, that of this process, or one dot for each of several."""
    repeats = result.as_processes()
    several = [one.within.ratio for one in repeats] if len(repeats) > 1 else []
    within, noise = None if several else speedup.within, stats.noise_floor(result.pooled_control)
    return ruler(speedup, outcome in ("faster", "slower"), noise, lang, within, several)


def _break_cost(result: RunResult, lang: Language) -> str:
    """What added graph breaks cost, as the headline of a run that has them; '' for one without."""
    parts, cost = sentences.break_parts(result, lang), result.break_cost
    if parts is None or cost is None:
        return ""
    interval = lang.marked(lang.sentence(sentences.break_interval(result, lang)))
    return f'<p class="speed">{_answer(parts, cost.verdict, lang)}</p><p class="break-interval">{interval}</p>'


def _without_break(result: RunResult, answer: str, lang: Language) -> str:
    """The `answer` of the model itself, where the headline is what breaks cost."""
    if sentences.break_parts(result, lang) is None:
        return ""
    return f'<p class="without-break">{lang.html("without_break")} {answer}</p>'


def _answer(parts: tuple[str, str, str], outcome: sentences.Outcome, lang: Language, mark: str = "") -> str:
    """A sentence whose middle part is large. `mark` is HTML that ends it."""
    before, figure, after = map(lang.marked, parts)
    size = "number" if outcome in ("faster", "slower") else "phrase"
    return (
        f'<span class="before">{before}</span> <span class="figure {size}">{figure}</span> '
        f'<span class="after">{after}{mark}</span>'
    )


def _asked(result: RunResult, lang: Language) -> str:
    where = result.environment.device_name if result.environment else result.spec.device
    return lang.marked(f"{sentences.settings_line(result.spec, lang)} · {lang.plain_value(where)}")


def _per_call(result: RunResult, lang: Language) -> str:
    one, many = (
        ("per_token", "per_step_of_tokens") if result.spec.unit == "token" else ("per_call", "per_call_of_images")
    )
    batch = result.spec.batch_size
    return lang.html(many, count=batch) if batch > 1 else lang.html(one)


def warnings(result: RunResult, lang: Language) -> str:
    """Each caveat once, and a remedy for noise."""
    way_out = actions.longer(result, lang)
    if not result.warnings and not way_out:
        return ""
    items = "".join(f"<li>{lang.marked(caveat)}</li>" for caveat in sentences.caveats(result, lang))
    caveats = f"<b>{lang.html('read_with_care')}</b><ul>{items}</ul>" if items else ""
    return f'<div class="warnings">{caveats}{way_out}</div>'


def failure(result: RunResult, lang: Language) -> str:
    """A run without figures: what happened, with which settings, and what to do."""
    failed = result.failure
    message = lang.quoted(failed.message) if failed else lang.html("no_figures")
    remedy = lang.quoted(failed.remedy) if failed else lang.html("run_again")
    remedy += actions.remedies(result, lang)
    return _card(lang.html(f"status_{result.status}"), message, remedy, _asked(result, lang), lang) + warnings(
        result, lang
    )


def refusal(title: str, english: str, lang: Language, way_out: str = "") -> str:
    """A card for a refused run: `title` is a key, `english` the program's own sentence, `way_out` HTML."""
    return _card(lang.html(title), lang.quoted(english), way_out, lang.html("not_started"), lang)


def problem(title: str, message: str, lang: Language, remedy: str = "", **values: object) -> str:
    """A card whose title, message and remedy are keys; `values` are the message's."""
    advice = lang.html(remedy) if remedy else ""
    return _card(lang.html(title), lang.html(message, **values), advice, lang.html("not_started"), lang)


def unexpected(lang: Language) -> str:
    """A card for an error that is in the log."""
    return problem("unexpected", "unexpected_words", lang, "unexpected_remedy")


def _card(title: str, message: str, remedy: str, kicker: str, lang: Language) -> str:
    """All arguments are HTML."""
    way_out = f'<p class="remedy"><b>{lang.html("what_to_do")}</b> {remedy}</p>' if remedy else ""
    return (
        f'<section class="problem" role="status"><p class="kicker">{kicker}</p>'
        f'<h2 class="display small">{title}</h2><p class="message">{message}</p>{way_out}</section>'
    )


def checkpoint_note(checkpoint: Checkpoint | None, named: str, lang: Language) -> str:
    """Under the list: what is known of the chosen checkpoint."""
    if checkpoint is None:
        refused = catalog.refusal(named)
        note = lang.quoted(refused) if refused else lang.html("note_hub", named=named)
        return f"<p class='note'>{note}</p>"
    facts = [lang.html("note_bundled" if checkpoint.bundled else "note_from_hub")]
    if checkpoint.parameters:
        facts.append(lang.html("note_parameters", count=fmt.parameters(checkpoint.parameters)))
    text = checkpoint.task == TEXT_GENERATION
    if not text:
        facts.append(lang.value("{} × {} px".format(*reversed(checkpoint.input_size))))
    note = "<p class='note'>{}</p>".format(" · ".join(f'<span class="fact">{fact}</span>' for fact in facts))
    if checkpoint.drawn_only and text:
        note += f"<p class='note'>{lang.html('note_drawn_only_text')}</p>"
    elif checkpoint.drawn_only:
        labels = lang.listed([lang.plain_quoted(label) for label in scenes.shapes(checkpoint)])
        note += f"<p class='note'>{lang.marked(lang.composed('note_drawn_only', labels=labels))}</p>"
    return note


def public_note(what: str, lang: Language) -> str:
    """Under the 'picture' or the 'prompt' on a public page: what is kept of it, and who can see it."""
    return f"<p class='note'>{lang.html(f'{what}_public')}</p>"


def picture_refused(sentence: str, lang: Language) -> str:
    """Under a picture that no run could read: the reason."""
    return f"<p class='note' role='status'><b aria-hidden='true'>!</b> {lang.quoted(sentence)}</p>"


def forecast(
    expected: Forecast | None,
    checkpoint: Checkpoint | None,
    doubts: Iterable[str],
    lang: Language,
    download: bool = True,
    query: str = "",
) -> str:
    """Beside the Run button: an estimate of time and memory, its basis, and doubts about the choice.

    `query` is that of a link to the form's values, which copy.js copies.
    """
    basis = _basis(expected, checkpoint, lang, download)
    shown = f" <small>{basis}</small>" if basis else ""
    listed = "".join(_doubt(lang.html(f"doubt_{doubt.replace(' ', '_')}")) for doubt in doubts)
    told = f"<p><b>{_expected(expected, lang)}</b>{shown}</p>{listed}"
    return f'<div class="forecast" data-query="{esc(query)}">{told}</div>'


def _expected(expected: Forecast | None, lang: Language) -> str:
    """'About 12 s, about 512 MB of memory'. `_basis` says what the estimate is based on."""
    if expected is None:
        return lang.html("forecast_unknown")
    figures = {"time": lang.html("about", value=sentences.rounded_duration(expected.seconds))}
    if expected.memory_bytes:
        figures["memory"] = lang.html("about", value=fmt.size(expected.memory_bytes))
    text = lang.texts["forecast_time_memory" if "memory" in figures else "forecast_time"].format(**figures)
    return text[:1].upper() + text[1:]


def _basis(expected: Forecast | None, checkpoint: Checkpoint | None, lang: Language, download: bool) -> str:
    if expected is None:
        return ""
    if expected.basis == "parameters":
        known = fmt.parameters(checkpoint.parameters) if checkpoint is not None else ""
        return lang.html("basis_parameters" if download else "basis_parameters_here", parameters=known)
    return lang.html(f"basis_{expected.basis}_{'one' if expected.runs == 1 else 'many'}", count=expected.runs)


def no_forecast(sentence: str, lang: Language) -> str:
    """Instead of a forecast: why the form's current values would be refused."""
    return f'<div class="forecast">{_doubt(lang.quoted(sentence))}</div>'


def _doubt(sentence: str) -> str:
    return f'<p class="doubt"><b aria-hidden="true">!</b> {sentence}</p>'


def mode_note(mode: str, lang: Language) -> str:
    key = f"mode_{mode.replace('-', '_')}"
    return f"<p class='note'>{lang.html(key if key in lang.texts else 'mode_unknown')}</p>"
