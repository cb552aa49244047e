"""What stands on the stage before a run and after it, as HTML. Every text from outside goes through `esc`."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable

from PIL import Image

from demo.core import format as fmt
from demo.core import stats
from demo.core.images import decode_preview
from demo.core.languages import ENGLISH, Language
from demo.core.result import Checkpoint, ImageInfo, Predictions, RunResult
from demo.present import canvas as drawing
from demo.present import section_texts as words
from demo.runs.forecast import Forecast
from demo.store import published
from demo.ui.html.elements import esc, facts, lane_name, percentage, ruler

VARIANTS: tuple[drawing.Variant, ...] = ("eager", "compiled")


def question(checkpoint: str, say: Language = ENGLISH) -> str:
    """The stage before the first run: the question, and what pressing Run will do."""
    return (
        f'<section class="question"><p class="kicker">{say.html("before_the_run")}</p>'
        f'<h2 class="display">{say.html("question", model=short(checkpoint))}</h2>'
        f'<p class="lead">{say.html("question_lead", precision="±1 %")}</p></section>'
    )


def short(checkpoint: str) -> str:
    """A hub id without its owner: what is said in a sentence."""
    return checkpoint.rsplit("/", 1)[-1]


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


def published_for(checkpoint: str, task: str, say: Language = ENGLISH) -> tuple[str, str]:
    """The checkpoint whose published rows stand in for this one, and the sentence that says so, as HTML."""
    if any(row.checkpoint == checkpoint for row in published.rows()):
        return checkpoint, say.html("published_own", model=short(checkpoint), year=2023)
    relative = _RELATIVES.get(checkpoint) or _RELATIVE_OF_TASK[task]
    kin = "published_kin" if checkpoint in _RELATIVES else "published_best_known"
    return relative, say.html(kin, model=short(checkpoint), relative=short(relative), year=2023)


def published_note(checkpoint: str, task: str, say: Language = ENGLISH) -> str:
    _, sentence = published_for(checkpoint, task, say)
    return f'<p class="figure-title">{sentence}</p>'


def headline(result: RunResult, say: Language = ENGLISH) -> str:
    """The answer: a sentence with one very large figure, its interval and noise floor, and the warnings."""
    outcome, speedup = words.outcome(result), result.speedup
    if outcome is None or speedup is None or result.eager is None or result.compiled is None:
        return failure(result, say)
    before, figure, after = map(say.marked, words.headline_parts(result, say) or ("", "", ""))
    arrow = {"faster": "▲", "slower": "▼"}.get(speedup.verdict, "")
    size = "number" if outcome in ("faster", "slower") else "phrase"
    latencies = (
        f"<span>{lane_name('eager', say)} <b>{say.value(fmt.latency(result.eager.median_seconds))}</b> →</span>"
        f"<span>{lane_name('compiled', say)} <b>{say.value(fmt.latency(result.compiled.median_seconds))}</b></span>"
    )
    mark = f' <span class="arrow" aria-hidden="true">{arrow}</span>' if arrow else ""
    return (
        f'<section class="headline {speedup.verdict}" role="status"><p class="kicker">{_asked(result, say)}</p>'
        f'<h2><span class="before">{before}</span> <span class="figure {size}">{figure}</span> '
        f'<span class="after">{after}{mark}</span></h2>'
        f'<p class="latencies"><span class="pair"{say.ltr}>{latencies}</span>'
        f'<span class="per">{_per_call(result, say)}</span></p>'
        f"{ruler(speedup.ratio, speedup.low, speedup.high, stats.noise_floor(result.control), say)}"
        f'<p class="interval">{say.marked(say.sentence(words.interval(result, say)))}</p>'
        f'<p class="floor">{say.marked(say.sentence(words.noise_floor(result, say)))}</p>'
        f"{_price(result, say)}{warnings(result, say)}</section>"
    )


def _asked(result: RunResult, say: Language) -> str:
    where = result.environment.device_name if result.environment else result.spec.device
    return say.marked(f"{words.asked(result.spec, say)} · {say.plain_value(where)}")


def _per_call(result: RunResult, say: Language) -> str:
    images = result.spec.batch_size
    return say.html("per_call_of_images", count=images) if images > 1 else say.html("per_call")


def _price(result: RunResult, say: Language) -> str:
    """What compiling cost, and when it has paid for itself."""
    compiled = result.compilation
    if compiled is None:
        return ""
    took = "price_warm" if compiled.cache == "warm" else "price_cold"
    time, calls = fmt.duration(compiled.first_call_seconds), result.break_even_calls
    verdict = result.speedup.verdict if result.speedup is not None else None
    if verdict == "faster" and calls is not None:
        sentence = say.html(f"{took}_pays_{'one' if calls == 1 else 'many'}", time=time, count=words.grouped(calls))
    else:
        sentence = say.html(f"{took}_unsure" if verdict == "unsure" else f"{took}_never", time=time)
    return f'<p class="price">{sentence}</p>'


def warnings(result: RunResult, say: Language = ENGLISH) -> str:
    if not result.warnings:
        return ""
    items = "".join(f"<li>{say.quoted(warning)}</li>" for warning in result.warnings)
    return f'<div class="warnings"><b>{say.html("read_with_care")}</b><ul>{items}</ul></div>'


def failure(result: RunResult, say: Language = ENGLISH) -> str:
    """A run that gave no figures: what happened, what was asked, what to do."""
    failed = result.failure
    message = say.quoted(failed.message) if failed else say.html("no_figures")
    remedy = say.quoted(failed.remedy) if failed else say.html("run_again")
    return _card(say.html(f"status_{result.status}"), message, remedy, _asked(result, say), say) + warnings(result, say)


def refusal(title: str, english: str, say: Language = ENGLISH) -> str:
    """A calm card; `title` is a key, the sentence the program's own."""
    return _card(say.html(title), say.quoted(english), "", say.html("not_started"), say)


def problem(title: str, message: str, remedy: str = "", say: Language = ENGLISH, **values: object) -> str:
    """A calm card whose title, message and remedy are keys; `values` are the message's."""
    told = say.html(message, **values)
    return _card(say.html(title), told, say.html(remedy) if remedy else "", say.html("not_started"), say)


def _card(title: str, message: str, remedy: str, kicker: str, say: Language) -> str:
    """All of it HTML already."""
    way_out = f'<p class="remedy"><b>{say.html("what_to_do")}</b> {remedy}</p>' if remedy else ""
    return (
        f'<section class="problem" role="status"><p class="kicker">{kicker}</p>'
        f'<h2 class="display small">{title}</h2><p class="message">{message}</p>{way_out}</section>'
    )


def predictions(result: RunResult, say: Language = ENGLISH) -> str:
    """What eager and compiled saw, side by side, with a sentence on whether they agree."""
    seen = result.predictions
    if seen is None or not all(variant in seen for variant in VARIANTS):
        if result.status == "ok" and result.spec.weights == "random":
            return _section(say, f'<p class="aside">{say.html("random_weights")}</p>')
        return ""
    agreed = words.agreement(result, say)
    told = f'<p class="agreement">{say.marked(agreed)}</p>' if agreed else ""
    body = _labels(result, seen, say) if seen["eager"].labels is not None else _pictures(result, seen, say)
    return _section(say, f"{told}<div{say.ltr}>{body}</div>")  # eager stands left of compiled in every language


def _section(say: Language, body: str) -> str:
    return f'<section class="evidence"><h3>{say.html("what_the_model_sees")}</h3>{body}</section>'


def _labels(result: RunResult, seen: dict[str, Predictions], say: Language) -> str:
    """The picture with its likeliest label drawn on it, and the five likeliest below, for each variant."""
    columns = "".join(
        f'<div class="labels">{_labelled(result.image, seen, variant, say)}{lane_name(variant, say)}<ol>'
        + "".join(
            f'<li><span class="label">{say.quoted(label.label)}</span><span class="score">{_share(label.score)}</span>'
            f'<i class="bar {variant}" style="width:{percentage(label.score)}"></i></li>'
            for label in (seen[variant].labels or ())[:5]
        )
        + "</ol></div>"
        for variant in VARIANTS
    )
    return f'<div class="seen with-labels">{columns}</div>'


def _labelled(info: ImageInfo | None, seen: dict[str, Predictions], variant: drawing.Variant, say: Language) -> str:
    if info is None:
        return ""
    try:
        picture = drawing.draw_labels(decode_preview(info.preview_jpeg), seen, variant, count=1)
    except ValueError:
        return ""
    alt = say.composed("seen_by", picture=say.plain_value(info.name), variant=words.variant(variant, say))
    return _image(_webp_uri(picture), alt)


def _share(score: float) -> str:
    return "< 0.1 %" if 0 < score < 0.0005 else fmt.percent(score)


SLIDE = """
element.addEventListener('input', event => {
  const pair = event.target.closest('.slide');
  if (pair && event.target.type === 'range') pair.style.setProperty('--at', event.target.value + '%');
});
"""
"""Moves the edge between the two pictures: CSS alone cannot read a range."""
_VIEWS = ("beside", "over", "difference")


def _pictures(result: RunResult, seen: dict[str, Predictions], say: Language) -> str:
    """Both pictures side by side, one over the other with a slider, what differs: a style sheet shows one of them."""
    info = result.image
    if info is None:
        return ""
    try:
        preview = decode_preview(info.preview_jpeg)
        uris = {variant: _webp_uri(drawing.draw(preview, info, seen, variant)) for variant in VARIANTS}
        differing = drawing.difference(preview, info, seen["eager"], seen["compiled"])
    except ValueError:
        return f'<p class="aside">{say.html("seen_gone")}</p>'
    images = {variant: _image(uri, _told(info, seen, variant, say)) for variant, uri in uris.items()}
    figures = "".join(
        f"<figure>{images[variant]}<figcaption>{lane_name(variant, say)}"
        f"<span>{say.marked(_found(seen[variant], say))}</span></figcaption></figure>"
        for variant in VARIANTS
    )
    group, how = f"view-{esc(result.id)}", esc(say.plain("views"))
    choices = "".join(
        f'<label><input type="radio" name="{group}" value="{view}"{" checked" if view == "beside" else ""}>'
        f"<span>{say.html(f'view_{view}')}</span></label>"
        for view in _VIEWS
    )
    return (
        f'<div class="views"><div class="choices" role="radiogroup" aria-label="{how}">'
        f"{choices}</div>"
        f'<div class="view beside"><div class="seen">{figures}</div></div>'
        f'<div class="view over">{_slide(images, say)}</div>'
        f'<div class="view difference">{_difference(info, differing, seen, say)}</div></div>'
    )


def _told(info: ImageInfo, seen: dict[str, Predictions], variant: str, say: Language) -> str:
    found = seen[variant].boxes or seen[variant].segments or ()
    names = [say.plain_value(thing.label) for thing in found] or [say.plain("seen_nothing")]
    return say.composed(
        "seen_things",
        picture=say.plain_value(info.name),
        variant=words.variant(variant, say),
        things=say.listed(names),
    )


def _slide(images: dict[drawing.Variant, str], say: Language) -> str:
    """Eager left of the edge, compiled right of it; the edge is a range that keys and fingers move."""
    return (
        f'<div class="slide"><div class="pair">{images["compiled"]}<div class="left">{images["eager"]}</div>'
        '<i class="edge" aria-hidden="true"></i></div>'
        f'<input type="range" min="0" max="100" value="50" aria-label="{esc(say.plain("seen_edge"))}">'
        f'<p class="sides">{lane_name("eager", say)}{lane_name("compiled", say)}</p></div>'
    )


def _difference(info: ImageInfo, picture: Image.Image | None, seen: dict[str, Predictions], say: Language) -> str:
    if picture is not None:
        return f"<figure>{_image(_webp_uri(picture), say.plain('seen_differ', picture=info.name))}</figure>"
    same = say.html("seen_same_boxes" if seen["eager"].boxes is not None else "seen_same_pixels")
    return f'<p class="aside">{same}</p>'


def _found(seen: Predictions, say: Language) -> str:
    if seen.boxes is not None:
        return words.count(len(seen.boxes), "object", say)
    segments = sum(segment.label not in drawing.UNTINTED for segment in seen.segments or ())
    return words.count(segments, "segment", say)


def _image(uri: str, alt: str) -> str:
    return f'<img src="{uri}" alt="{esc(alt)}">'


def _webp_uri(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=88)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def details(result: RunResult, say: Language = ENGLISH) -> str:
    """The engineer's part, folded: every figure with its explanation, and the result as JSON to take away."""
    title = say.html("all_figures" if result.status == "ok" else "known_of_run")
    rows = facts(words.details(result, say), say)
    table = f"<table><caption>{_asked(result, say)}</caption><tbody>{rows}</tbody></table>"
    data = base64.b64encode(json.dumps(result.to_json(), allow_nan=False, indent=2).encode()).decode()
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{short(result.spec.checkpoint)}-{result.id}").strip("-.")
    return (
        f'<section class="details"><details><summary>{title}</summary>{table}</details>'
        f'<a class="download" download="{esc(name)}.json" href="data:application/json;base64,{data}">'
        f"{say.html('download_json')}</a></section>"
    )


def checkpoint_note(checkpoint: Checkpoint | None, named: str, say: Language = ENGLISH) -> str:
    """One line under the list: what was chosen."""
    if checkpoint is None:
        return f"<p class='note'>{say.html('note_hub', named=named or say.plain('note_nothing'))}</p>"
    facts = [say.html("note_bundled" if checkpoint.bundled else "note_from_hub")]
    if checkpoint.parameters:
        facts.append(say.html("note_parameters", count=fmt.parameters(checkpoint.parameters)))
    facts.append(say.value("{} × {} px".format(*reversed(checkpoint.input_size))))
    return "<p class='note'>{}</p>".format(" · ".join(f'<span class="fact">{fact}</span>' for fact in facts))


def picture_note(say: Language = ENGLISH) -> str:
    """Under the picture where strangers meet: what is kept of it, and who can see that."""
    return f"<p class='note'>{say.html('picture_public')}</p>"


def forecast(
    expected: Forecast | None, checkpoint: Checkpoint | None, doubts: Iterable[str], say: Language = ENGLISH
) -> str:
    """Beside the Run button: time and memory to expect, what that rests on, and why the choice may be pointless."""
    basis = _basis(expected, checkpoint, say)
    shown = f" <small>{basis}</small>" if basis else ""
    said = "".join(_doubt(say.html(f"doubt_{doubt.replace(' ', '_')}")) for doubt in doubts)
    return f'<div class="forecast"><p><b>{_expected(expected, say)}</b>{shown}</p>{said}</div>'


def _expected(expected: Forecast | None, say: Language) -> str:
    """'About 12 s, about 512 MB of memory'; what it rests on is told by `_basis`."""
    if expected is None:
        return say.html("forecast_unknown")
    figures = {"time": _about(words.foretold(expected.seconds, words.rounded_duration), say)}
    if expected.memory_bytes.likely:
        figures["memory"] = _about(words.foretold(expected.memory_bytes, fmt.size), say)
    said = say.texts["forecast_time_memory" if "memory" in figures else "forecast_time"].format(**figures)
    return said[:1].upper() + said[1:]


def _about(ends: tuple[str, str], say: Language) -> str:
    low, high = ends
    return say.html("about", value=high) if low == high else say.html("between", low=low, high=high)


def _basis(expected: Forecast | None, checkpoint: Checkpoint | None, say: Language) -> str:
    if expected is None:
        return ""
    if expected.basis == "parameters":
        known = fmt.parameters(checkpoint.parameters) if checkpoint is not None else ""
        return say.html("basis_parameters", parameters=known)
    return say.html(f"basis_{expected.basis}_{'one' if expected.runs == 1 else 'many'}", count=expected.runs)


def no_forecast(sentence: str, say: Language = ENGLISH) -> str:
    """The form as it stands would be refused: why."""
    return f'<div class="forecast">{_doubt(say.quoted(sentence))}</div>'


def _doubt(sentence: str) -> str:
    return f'<p class="doubt"><b aria-hidden="true">!</b> {sentence}</p>'


def mode_note(mode: str, say: Language = ENGLISH) -> str:
    key = f"mode_{mode.replace('-', '_')}"
    return f"<p class='note'>{say.html(key if key in say.texts else 'mode_unknown')}</p>"


UNEXPECTED = ("unexpected", "unexpected_words", "unexpected_remedy")


def zero_gpu() -> str:
    """The stage on a ZeroGPU Space: see `runs.on_zero_gpu`."""
    return (
        '<section class="question"><p class="kicker">On ZeroGPU</p>'
        '<h2 class="display small">There is no torch.compile here</h2>'
        '<p class="lead">This Space borrows a GPU for a few seconds at a time, and compiling needs to keep it. '
        "Below is what the guide measured. To time your own machine, run this project there: "
        "<code>python app.py</code>.</p></section>"
    )
