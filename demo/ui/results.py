"""What stands on the stage before a run and after it, as HTML. Every text from outside goes through `esc`."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from collections.abc import Iterable

from PIL import Image

from demo import drawing, published, stats, words
from demo import format as fmt
from demo.forecast import Forecast
from demo.schema import Checkpoint, ImageInfo, Predictions, RunResult
from demo.ui.parts import esc, lane_name, percentage, ruler

VARIANTS: tuple[drawing.Variant, ...] = ("eager", "compiled")
NBSP = "\N{NO-BREAK SPACE}"
_UNREADABLE = (OSError, ValueError, binascii.Error, Image.DecompressionBombError)


def question(checkpoint: str) -> str:
    """The stage before the first run: the question, and what pressing Run will do."""
    return (
        '<section class="question"><p class="kicker">Before the run</p>'
        f'<h2 class="display">Is it worth compiling <span class="model">{esc(short(checkpoint))}</span>?</h2>'
        '<p class="lead">Press Run. The model is timed as it is, compiled with <code>torch.compile</code>, and the two '
        "are timed in turn on this machine until their difference is known to ±1 %. You see whether it is faster, "
        "what compiling costs, and whether the compiled model still sees the same.</p></section>"
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


def published_for(checkpoint: str, task: str) -> tuple[str, str]:
    """The checkpoint whose published rows stand in for this one, and the sentence that says so."""
    if any(row.checkpoint == checkpoint for row in published.rows()):
        return checkpoint, f"What the guide measured for {short(checkpoint)} in 2023, on GPUs. Yours will differ."
    relative = _RELATIVES.get(checkpoint) or _RELATIVE_OF_TASK[task]
    kin = "larger relative" if checkpoint in _RELATIVES else "best-known model for this task"
    return relative, (
        f"The guide did not measure {short(checkpoint)}. "
        f"Here is what it found in 2023 for its {kin} {short(relative)}, on GPUs."
    )


def published_note(checkpoint: str, task: str) -> str:
    _, sentence = published_for(checkpoint, task)
    return f'<p class="figure-title">{esc(sentence)}</p>'


def headline(result: RunResult) -> str:
    """The answer: a sentence with one very large figure, its interval and noise floor, and the warnings."""
    parts = words.headline_parts(result)
    if parts is None or result.speedup is None or result.eager is None or result.compiled is None:
        return failure(result)
    before, figure, after = parts
    speedup = result.speedup
    arrow = {"faster": "▲", "slower": "▼"}.get(speedup.verdict, "")
    size = "number" if figure[0].isdigit() else "phrase"
    latencies = (
        f"<span>{lane_name('eager')} <b>{fmt.latency(result.eager.median_seconds)}</b> →</span>"
        f"<span>{lane_name('compiled')} <b>{fmt.latency(result.compiled.median_seconds)}</b></span>"
    )
    mark = f' <span class="arrow" aria-hidden="true">{arrow}</span>' if arrow else ""
    return (
        f'<section class="headline {speedup.verdict}" role="status"><p class="kicker">{_asked(result)}</p>'
        f'<h2><span class="before">{esc(before)}</span> <span class="figure {size}">{esc(figure)}</span> '
        f'<span class="after">{esc(after)}{mark}</span></h2>'
        f'<p class="latencies">{latencies}<span class="per">a call{_batch_words(result)}</span></p>'
        f"{ruler(speedup.ratio, speedup.low, speedup.high, stats.noise_floor(result.control))}"
        f'<p class="interval">{esc(_capital(words.interval(result)))}.</p>'
        f'<p class="floor">{esc(_capital(words.noise_floor(result)))}.</p>'
        f"{_price(result)}{warnings(result)}</section>"
    )


def _asked(result: RunResult) -> str:
    spec, machine = result.spec, result.environment
    where = machine.device_name if machine else spec.device
    return esc(" · ".join((spec.checkpoint, f"batch {spec.batch_size}", spec.mode, spec.dtype, where)))


def _batch_words(result: RunResult) -> str:
    return f" of {result.spec.batch_size} images" if result.spec.batch_size > 1 else ""


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _price(result: RunResult) -> str:
    """What compiling cost, and when it has paid for itself."""
    compiled = result.compilation
    if compiled is None:
        return ""
    took = {"cold": "Compiling took", "warm": "Compiling, mostly from the cache, took", "off": "Compiling took"}
    sentence = f"{took[compiled.cache]} {fmt.duration(compiled.first_call_seconds)}"
    calls = result.break_even_calls
    if result.speedup is not None and result.speedup.verdict == "faster" and calls is not None:
        sentence += f"; it has paid for itself after {words.count(calls, 'call')}."
    elif result.speedup is not None and result.speedup.verdict == "unsure":
        sentence += "."
    else:
        sentence += ", and here it never pays for itself."
    return f'<p class="price">{esc(sentence)}</p>'


def warnings(result: RunResult) -> str:
    if not result.warnings:
        return ""
    items = "".join(f"<li>{esc(warning)}</li>" for warning in result.warnings)
    return f'<div class="warnings"><b>Read with care</b><ul>{items}</ul></div>'


def failure(result: RunResult) -> str:
    """A run that gave no figures: what happened, what was asked, what to do."""
    failed = result.failure
    message = failed.message if failed else "The run gave no figures."
    remedy = failed.remedy if failed else "Run it again."
    title = words.STATUS_WORDS.get(result.status, result.status)
    return problem(title, message, remedy, _asked(result)) + warnings(result)


def problem(title: str, message: str, remedy: str = "", kicker: str = "") -> str:
    """A calm card. `kicker` is HTML already."""
    way_out = f'<p class="remedy"><b>What to do</b> {esc(remedy)}</p>' if remedy else ""
    return (
        f'<section class="problem" role="status"><p class="kicker">{kicker or "No run was started"}</p>'
        f'<h2 class="display small">{esc(title)}</h2><p class="message">{esc(message)}</p>{way_out}</section>'
    )


def predictions(result: RunResult) -> str:
    """What eager and compiled saw, side by side, with a sentence on whether they agree."""
    seen = result.predictions
    if seen is None or not all(variant in seen for variant in VARIANTS):
        if result.status == "ok" and result.spec.weights == "random":
            return _section(
                "What the model sees",
                '<p class="aside">The weights are random, so predictions would mean nothing and are not drawn. '
                "The latency is real: it does not depend on the values of the weights.</p>",
            )
        return ""
    agreement = words.agreement(result)
    told = f'<p class="agreement">{esc(agreement)}</p>' if agreement else ""
    body = _labels(result, seen) if seen["eager"].labels is not None else _pictures(result, seen)
    return _section("What the model sees", told + body)


def _section(title: str, body: str) -> str:
    return f'<section class="evidence"><h3>{esc(title)}</h3>{body}</section>'


def _labels(result: RunResult, seen: dict[str, Predictions]) -> str:
    """The picture with its likeliest label drawn on it, and the five likeliest below, for each variant."""
    columns = "".join(
        f'<div class="labels">{_labelled(result.image, seen, variant)}{lane_name(variant)}<ol>'
        + "".join(
            f'<li><span class="label">{esc(label.label)}</span><span class="score">{_share(label.score)}</span>'
            f'<i class="bar {variant}" style="width:{percentage(label.score)}"></i></li>'
            for label in (seen[variant].labels or ())[:5]
        )
        + "</ol></div>"
        for variant in VARIANTS
    )
    return f'<div class="seen with-labels">{columns}</div>'


def _labelled(info: ImageInfo | None, seen: dict[str, Predictions], variant: drawing.Variant) -> str:
    if info is None:
        return ""
    try:
        with Image.open(io.BytesIO(base64.b64decode(info.preview_jpeg))) as preview:
            preview.load()
            picture = drawing.draw_labels(preview, seen, variant, count=1)
    except _UNREADABLE:
        return ""
    return _image(_webp_uri(picture), f"{info.name} as the {variant} model sees it")


def _share(score: float) -> str:
    return "< 0.1 %" if 0 < score < 0.0005 else fmt.percent(score)


SLIDE = """
element.addEventListener('input', event => {
  const pair = event.target.closest('.slide');
  if (pair && event.target.type === 'range') pair.style.setProperty('--at', event.target.value + '%');
});
"""
"""Moves the edge between the two pictures: CSS alone cannot read a range."""
_VIEWS = (("beside", "Side by side"), ("over", "Slider"), ("difference", "Difference"))


def _pictures(result: RunResult, seen: dict[str, Predictions]) -> str:
    """Both pictures side by side, one over the other with a slider, what differs: a style sheet shows one of them."""
    info = result.image
    if info is None:
        return ""
    try:
        with Image.open(io.BytesIO(base64.b64decode(info.preview_jpeg))) as preview:
            preview.load()
            uris = {variant: _webp_uri(drawing.draw(preview, info, seen, variant)) for variant in VARIANTS}
            differing = drawing.difference(preview, info, seen["eager"], seen["compiled"])
    except _UNREADABLE:
        return '<p class="aside">The picture of this result cannot be drawn again.</p>'
    images = {variant: _image(uri, _told(info, seen, variant)) for variant, uri in uris.items()}
    figures = "".join(
        f"<figure>{images[variant]}"
        f"<figcaption>{lane_name(variant)}<span>{esc(_found(seen[variant]))}</span></figcaption></figure>"
        for variant in VARIANTS
    )
    group = f"view-{esc(result.id)}"
    choices = "".join(
        f'<label><input type="radio" name="{group}" value="{view}"{" checked" if view == "beside" else ""}>'
        f"<span>{title}</span></label>"
        for view, title in _VIEWS
    )
    return (
        f'<div class="views"><div class="choices" role="radiogroup" aria-label="How to compare">{choices}</div>'
        f'<div class="view beside"><div class="seen">{figures}</div></div>'
        f'<div class="view over">{_slide(images)}</div>'
        f'<div class="view difference">{_difference(info, differing, seen)}</div></div>'
    )


def _told(info: ImageInfo, seen: dict[str, Predictions], variant: str) -> str:
    found = seen[variant].boxes or seen[variant].segments or ()
    names = ", ".join(thing.label for thing in found) or "nothing"
    return f"{info.name} as the {variant} model sees it: {names}"


def _slide(images: dict[drawing.Variant, str]) -> str:
    """Eager left of the edge, compiled right of it; the edge is a range that keys and fingers move."""
    return (
        f'<div class="slide"><div class="pair">{images["compiled"]}<div class="left">{images["eager"]}</div>'
        '<i class="edge" aria-hidden="true"></i></div>'
        '<input type="range" min="0" max="100" value="50" aria-label="Share of the picture that shows eager, per cent">'
        f'<p class="sides">{lane_name("eager")}{lane_name("compiled")}</p></div>'
    )


def _difference(info: ImageInfo, picture: Image.Image | None, seen: dict[str, Predictions]) -> str:
    if picture is not None:
        return f"<figure>{_image(_webp_uri(picture), f'Where the two differ on {info.name}')}</figure>"
    same = "Every box has its partner" if seen["eager"].boxes is not None else "No pixel changed its label"
    return f'<p class="aside">{same}: there is no difference to draw.</p>'


def _found(seen: Predictions) -> str:
    if seen.boxes is not None:
        return words.count(len(seen.boxes), "object")
    return words.count(sum(segment.label not in drawing.UNTINTED for segment in seen.segments or ()), "segment")


def _image(uri: str, alt: str) -> str:
    return f'<img src="{uri}" alt="{esc(alt)}">'


def _webp_uri(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=88)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def details(result: RunResult) -> str:
    """The engineer's part, folded: every figure with its explanation, and the result as JSON to take away."""
    rows = "".join(
        f'<tr><th scope="row">{esc(name)}</th><td class="value">{esc(value)}</td>'
        f'<td class="why">{esc(explanation)}</td></tr>'
        for name, value, explanation in words.details(result)
    )
    title = "All figures, and how they were made" if result.status == "ok" else "What is known of this run"
    data = base64.b64encode(json.dumps(result.to_json(), allow_nan=False, indent=2).encode()).decode()
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{short(result.spec.checkpoint)}-{result.id}").strip("-.")
    return (
        f'<section class="details"><details><summary>{title}</summary>'
        f"<table><caption>{_asked(result)}</caption><tbody>{rows}</tbody></table></details>"
        f'<a class="download" download="{esc(name)}.json" href="data:application/json;base64,{data}">'
        "Download this result as JSON</a></section>"
    )


def checkpoint_note(checkpoint: Checkpoint | None, named: str) -> str:
    """One line under the list: what was chosen."""
    if checkpoint is None:
        return (
            f"<p class='note'>{esc(named) or 'Nothing'} is not in the list: it is fetched from the Hugging Face "
            "Hub, safetensors only.</p>"
        )
    facts = ["Bundled" if checkpoint.bundled else "From the Hub"]
    if checkpoint.parameters:
        facts.append(f"{fmt.parameters(checkpoint.parameters)} parameters")
    facts.append("{} × {} px".format(*reversed(checkpoint.input_size)))
    return f"<p class='note'>{esc(' · '.join(fact.replace(' ', NBSP) for fact in facts))}</p>"


def forecast(expected: Forecast | None, checkpoint: Checkpoint | None, doubts: Iterable[str]) -> str:
    """Beside the Run button: time and memory to expect, what that rests on, and why the choice may be pointless."""
    basis = words.forecast_basis(expected, checkpoint)
    shown = f" <small>{esc(basis)}</small>" if basis else ""
    said = "".join(_doubt(words.DOUBT_WORDS[doubt]) for doubt in doubts)
    return f'<div class="forecast"><p><b>{esc(words.forecast(expected))}</b>{shown}</p>{said}</div>'


def no_forecast(sentence: str) -> str:
    """The form as it stands would be refused: why."""
    return f'<div class="forecast">{_doubt(sentence)}</div>'


def _doubt(sentence: str) -> str:
    return f'<p class="doubt"><b aria-hidden="true">!</b> {esc(sentence)}</p>'


def mode_note(mode: str) -> str:
    return f"<p class='note'>{esc(words.mode_word(mode))}</p>"


UNEXPECTED = (
    "Something went wrong on the server",
    "The page met an error that it did not expect. It is written to the server's log; nothing you entered is lost.",
    "Press Run again. If it happens again, tell whoever runs this server.",
)


def zero_gpu() -> str:
    """The stage on a ZeroGPU Space: see `runs.on_zero_gpu`."""
    return (
        '<section class="question"><p class="kicker">On ZeroGPU</p>'
        '<h2 class="display small">There is no torch.compile here</h2>'
        '<p class="lead">This Space borrows a GPU for a few seconds at a time, and compiling needs to keep it. '
        "Below is what the guide measured. To time your own machine, run this project there: "
        "<code>python app.py</code>.</p></section>"
    )
