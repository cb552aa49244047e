"""The result pane as HTML: before a run, while it goes on, and after it.

After a run: the verdict, what eager and compiled saw or wrote, and the parts of `demo.present.details`, each with the
chart that it has.
"""

import base64
import io
from collections.abc import Iterable

from markupsafe import Markup
from PIL import Image

from demo.core import catalog, format as fmt, stats
from demo.core.catalog import Checkpoint
from demo.core.images import decode_preview
from demo.core.languages import Language
from demo.core.outputs import ImageInfo, Predictions
from demo.core.result import Progress, RunResult
from demo.core.spec import TEXT_GENERATION, RunSpec
from demo.present import advice, charts, details, sentences
from demo.present.guide_comparison import compare_with_guide
from demo.present.pictures import UNTINTED, VARIANTS, difference, draw_boxes, draw_label, draw_segments
from demo.runs.forecast import Forecast
from demo.store import published
from demo.ui.html.elements import again, drawn, longer, ruler


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
        longer=longer(result, lang),
    )


def failure(result: RunResult, lang: Language) -> Markup:
    """A run without figures: what happened, with which settings, and what to do."""
    failed = result.failure
    message = lang.plain_quoted(failed.message) if failed else lang.plain("no_figures")
    remedy = sentences.remedy(failed.remedy, lang) if failed else lang.plain("run_again")
    way_out = Markup(lang.marked(remedy)) + again(result.spec, failed.change if failed else {}, lang)
    asked = f"{sentences.settings_line(result.spec, lang)} · {lang.plain_value(sentences.where(result))}"
    card = drawn("results.card", lang, sentences.status(result, lang), message, way_out, asked)
    return card + drawn("results.warnings", lang, result, longer(result, lang))


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
    expected: Forecast | None, checkpoint: Checkpoint | None, doubts: Iterable[str], lang: Language, query: str = ""
) -> Markup:
    """Beside Run: time, memory, what they rest on, doubts, and the `query` of the link that copy.js copies."""
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


# While it runs

STEPS = ("load", "warm_up", "compile", "time", "check")
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def strip(progress: Progress, spec: RunSpec, lang: Language) -> Markup:
    """Phases, time, two or three lanes and the interval so far.

    gradio replaces only the nodes that differ. So the order and number of elements must not depend on the progress:
    then bars only change their length.
    """
    speedup, step = progress.speedup, STEP_OF_PHASE.get(progress.phase, 0)
    axis = ruler(speedup, not speedup.vague, 0.0, lang) if speedup is not None else ""
    lanes = _lanes(progress, spec)
    return drawn("progress.strip", lang, spec, progress, STEPS, step, doing(progress, lang), lanes, axis)


def doing(progress: Progress, lang: Language) -> Markup:
    """What the worker is doing."""
    if progress.code:
        return Markup(lang.marked(sentences.worker_word("progress", progress.code, lang)))
    step = STEP_OF_PHASE.get(progress.phase, 0)
    return Markup(lang.html("doing_done" if step == len(STEPS) else f"doing_{STEPS[step]}"))


def _lanes(progress: Progress, spec: RunSpec) -> dict[str, tuple[float, str, str]]:
    """By variant the share of its bar, of which the fastest shows how far the timing is, its latency and its rate."""
    seen = {"eager": progress.eager_seconds, "compiled": progress.compiled_seconds}
    if spec.graph_break:
        seen["with_break"] = progress.with_break_seconds
    fastest = min((seconds for seconds in seen.values() if seconds), default=0.0)
    done = 1.0 if progress.phase in ("check", "done") else progress.timing_done or 0.0
    return {
        variant: (done * fastest / seconds, fmt.latency(seconds), fmt.rate(spec.batch_size / seconds))
        if seconds
        else (0.0, "–", "–")
        for variant, seconds in seen.items()
    }


# What both saw or wrote


def outputs(result: RunResult, lang: Language) -> Markup:
    """The predictions of eager and compiled, or their texts, with a sentence on whether they agree."""
    seen, info = result.predictions, result.image
    heading = "what_the_model_writes" if result.spec.unit == "token" else "what_the_model_sees"
    if seen is None or not all(variant in seen for variant in VARIANTS):
        if result.status != "ok" or result.spec.weights != "random":
            return Markup()
        return drawn("results.evidence", lang, heading, drawn("results.aside", lang, "random_weights"))
    if seen["eager"].text is not None:
        body = _texts(result, seen, lang)
    elif seen["eager"].labels is not None:
        body = _labels(info, seen, lang)
    else:
        try:
            body = _pictures(result, info, seen, lang) if info is not None else Markup()
        except (ValueError, ArithmeticError):  # of a stored result that was damaged: the rest of it is still shown
            body = drawn("results.aside", lang, "seen_gone")
    beyond = catalog.is_beyond(result.spec.checkpoint, info.sha256 if info else None)
    notes = drawn("results.notes", lang, details.agreement(result, lang), beyond)
    return drawn("results.evidence", lang, heading, notes + body)


def _preview(info: ImageInfo | None) -> Image.Image | None:
    """The stored copy of the picture; None where there is none, or none that can be read."""
    try:
        return decode_preview(info.preview_jpeg) if info is not None else None
    except ValueError:
        return None


def _labels(info: ImageInfo | None, seen: dict[str, Predictions], lang: Language) -> Markup:
    """For each variant: the picture with the most likely label on it, and the five most likely labels below."""
    preview, columns = _preview(info), {}
    for variant in VARIANTS:
        picture = None
        if info is not None and preview is not None:
            names = {"picture": lang.plain_value(info.name), "variant": sentences.variant(variant, lang)}
            picture = _webp_uri(draw_label(preview, seen, variant)), lang.composed("seen_by", **names)
        columns[variant] = picture, (seen[variant].labels or ())[:5]
    return drawn("results.labels", lang, columns)


def _pictures(result: RunResult, info: ImageInfo, seen: dict[str, Predictions], lang: Language) -> Markup:
    """Three views, of which the style sheet shows one: side by side, one over the other, the difference."""
    if (preview := _preview(info)) is None:
        return drawn("results.aside", lang, "seen_gone")
    boxes = seen["eager"].boxes is not None
    images, counts = {}, {}
    for variant in VARIANTS:
        picture = draw_boxes(preview, info, seen, variant) if boxes else draw_segments(preview, seen, variant)
        things = seen[variant].boxes or seen[variant].segments or ()
        names = [lang.plain_value(thing.label) for thing in things] or [lang.plain("seen_nothing")]
        told = {"picture": lang.plain_value(info.name), "variant": sentences.variant(variant, lang)}
        images[variant] = _webp_uri(picture), lang.composed("seen_things", **told, things=lang.listed(names))
        number = sum(boxes or thing.label not in UNTINTED for thing in things)
        counts[variant] = sentences.count(number, "object" if boxes else "segment", lang)
    differing = difference(preview, info, seen["eager"], seen["compiled"])
    return drawn(
        "results.pictures",
        lang,
        result.id,
        images,
        counts,
        differing=differing and (_webp_uri(differing), lang.plain("seen_differ", picture=info.name)),
        same="seen_same_boxes" if boxes else "seen_same_pixels",
    )


def _webp_uri(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=88)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


PLAYED_SECONDS = 6.0
"""What eager's answer should take at least, played."""
SLOWED = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def _texts(result: RunResult, seen: dict[str, Predictions], lang: Language) -> Markup:
    """The prompt, and below it both answers, token by token, each with the second at which it is played."""
    starts, slowed = result.prefill_latencies or (0.0, 0.0), _slowed(result)
    columns = {
        variant: (start * slowed, result.latencies.get(variant, 0.0) * slowed, seen[variant].pieces or ())
        for variant, start in zip(VARIANTS, starts, strict=True)
    }
    parted, at = details.parted(result, lang), details.parted_at(result)
    return drawn("results.texts", lang, result.spec.prompt, parted, at, slowed, columns)


def _slowed(result: RunResult) -> int:
    """How many times slower than measured the answers are played."""
    answer = result.answer_seconds
    if answer is None or not answer[0]:
        return 1
    return next((times for times in SLOWED if times * answer[0] >= PLAYED_SECONDS), SLOWED[-1])


# The folds


CHARTS = {"calls": charts.trace, "pays": charts.break_even, "beside": charts.run_and_guide}
"""The makers of the Plotly figures, by the names of the parts; a maker gives None where a result has none."""


def parts(result: RunResult, lang: Language) -> dict[str, Markup]:
    """The HTML of each part that has something to tell, by its name; an untried size has a button that tries it."""
    button = Markup() if result.another_sizes else again(result.spec, {"another_size": True}, lang)
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
    return headline(result, lang) + outputs(result, lang) + whole(result, lang)


def beside(result: RunResult, lang: Language) -> Markup:
    """The run beside the guide's rows; '' if the guide has none for its checkpoint, or the run has no speed-up."""
    found = compare_with_guide(result, lang)
    return drawn("results.beside", lang, found) if found is not None else Markup()
