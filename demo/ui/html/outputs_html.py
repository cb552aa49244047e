"""What eager and compiled saw or wrote, side by side, as HTML. Every text from outside is escaped."""

from __future__ import annotations

import base64
import io

from PIL import Image

from demo.core import format as fmt
from demo.core import scenes
from demo.core.images import decode_preview
from demo.core.languages import Language
from demo.core.outputs import ImageInfo, Predictions
from demo.core.result import RunResult
from demo.present import drawing, palette, same_answer, sentences
from demo.ui.html import answer
from demo.ui.html.elements import VARIANTS, esc, lane_name, percentage


def shown(result: RunResult, lang: Language) -> str:
    """The predictions of eager and compiled, or their texts, with a sentence on whether they agree."""
    seen = result.predictions
    if seen is None or not all(variant in seen for variant in VARIANTS):
        if result.status == "ok" and result.spec.weights == "random":
            heading = "what_the_model_writes" if result.spec.unit == "token" else "what_the_model_sees"
            return _section(lang, f'<p class="aside">{lang.html("random_weights")}</p>', heading)
        return ""
    agreed = same_answer.agreement(result, lang)
    notes = f'<p class="agreement">{lang.marked(agreed)}</p>' if agreed else ""
    if scenes.is_beyond(result):
        notes += f'<p class="beyond">{lang.html("beyond_shapes")}</p>'
    if seen["eager"].text is not None:
        return answer.section(result, seen, notes, lang)
    body = _labels(result, seen, lang) if seen["eager"].labels is not None else _pictures(result, seen, lang)
    return _section(lang, f"{notes}<div{lang.ltr}>{body}</div>")  # eager stands left of compiled in every language


def _section(lang: Language, body: str, heading: str = "what_the_model_sees") -> str:
    return f'<section class="evidence"><h3>{lang.html(heading)}</h3>{body}</section>'


def _labels(result: RunResult, seen: dict[str, Predictions], lang: Language) -> str:
    """For each variant: the picture with the most likely label on it, and the five most likely labels below."""
    columns = "".join(
        f'<div class="labels">{_labelled(result.image, seen, variant, lang)}{lane_name(variant, lang)}<ol>'
        + "".join(
            f'<li><span class="label">{lang.quoted(label.label)}</span><span class="score">{_share(label.score)}</span>'
            f'<i class="bar {variant}" style="width:{percentage(label.score)}"></i></li>'
            for label in (seen[variant].labels or ())[:5]
        )
        + "</ol></div>"
        for variant in VARIANTS
    )
    return f'<div class="seen with-labels">{columns}</div>'


def _labelled(info: ImageInfo | None, seen: dict[str, Predictions], variant: palette.Variant, lang: Language) -> str:
    if info is None:
        return ""
    try:
        picture = drawing.draw_labels(decode_preview(info.preview_jpeg), seen, variant, count=1)
    except ValueError:
        return ""
    alt = lang.composed("seen_by", picture=lang.plain_value(info.name), variant=sentences.variant(variant, lang))
    return _image(_webp_uri(picture), alt)


def _share(score: float) -> str:
    return "< 0.1 %" if 0 < score < 0.0005 else fmt.percent(score)


SLIDE = """
const show = range => range.closest('.slide').style.setProperty('--at', range.value + '%');
element.addEventListener('input', event => {
  if (event.target.matches('.slide [type=range]')) show(event.target);
});
const drag = event => {
  const pair = event.target.closest('.slide .pair');
  if (!pair || !(event.buttons & 1)) return;
  const box = pair.getBoundingClientRect(), range = pair.parentElement.querySelector('[type=range]');
  range.value = (event.clientX - box.left) / box.width * 100;
  show(range);
  if (event.type === 'pointerdown') pair.setPointerCapture(event.pointerId);
};
element.addEventListener('pointerdown', drag);
element.addEventListener('pointermove', drag);
"""
"""Moves the edge between the two pictures, by the range input or by dragging."""
SCRIPT = SLIDE + answer.PLAY
_VIEWS = ("beside", "over", "difference")


def _pictures(result: RunResult, seen: dict[str, Predictions], lang: Language) -> str:
    """Three views, of which the style sheet shows one: side by side, one over the other, the difference."""
    info = result.image
    if info is None:
        return ""
    try:
        preview = decode_preview(info.preview_jpeg)
        uris = {variant: _webp_uri(drawing.draw(preview, info, seen, variant)) for variant in VARIANTS}
        differing = drawing.difference(preview, info, seen["eager"], seen["compiled"])
    except ValueError:
        return f'<p class="aside">{lang.html("seen_gone")}</p>'
    images = {variant: _image(uri, _alt(info, seen, variant, lang)) for variant, uri in uris.items()}
    figures = "".join(
        f"<figure>{images[variant]}<figcaption>{lane_name(variant, lang)}"
        f"<span>{lang.marked(_count(seen[variant], lang))}</span></figcaption></figure>"
        for variant in VARIANTS
    )
    group, how = f"view-{esc(result.id)}", esc(lang.plain("views"))
    choices = "".join(
        f'<label><input type="radio" name="{group}" value="{view}"{" checked" if view == "beside" else ""}>'
        f"<span>{lang.html(f'view_{view}')}</span></label>"
        for view in _VIEWS
    )
    return (
        f'<div class="views"><div class="choices" role="radiogroup" aria-label="{how}">'
        f"{choices}</div>"
        f'<div class="view beside"><div class="seen">{figures}</div></div>'
        f'<div class="view over">{_slide(images, lang)}</div>'
        f'<div class="view difference">{_difference(info, differing, seen, lang)}</div></div>'
    )


def _alt(info: ImageInfo, seen: dict[str, Predictions], variant: str, lang: Language) -> str:
    """The picture in words: the labels of its boxes or segments."""
    things = seen[variant].boxes or seen[variant].segments or ()
    names = [lang.plain_value(thing.label) for thing in things] or [lang.plain("seen_nothing")]
    return lang.composed(
        "seen_things",
        picture=lang.plain_value(info.name),
        variant=sentences.variant(variant, lang),
        things=lang.listed(names),
    )


def _slide(images: dict[drawing.Variant, str], lang: Language) -> str:
    """Eager left of the edge, compiled right of it. The edge is a range input."""
    return (
        f'<div class="slide"><div class="pair">{images["compiled"]}<div class="left">{images["eager"]}</div>'
        '<i class="edge" aria-hidden="true"></i></div>'
        f'<input type="range" min="0" max="100" value="50" aria-label="{esc(lang.plain("seen_edge"))}">'
        f'<p class="sides">{lane_name("eager", lang)}{lane_name("compiled", lang)}</p></div>'
    )


def _difference(info: ImageInfo, picture: Image.Image | None, seen: dict[str, Predictions], lang: Language) -> str:
    if picture is not None:
        return f"<figure>{_image(_webp_uri(picture), lang.plain('seen_differ', picture=info.name))}</figure>"
    same = lang.html("seen_same_boxes" if seen["eager"].boxes is not None else "seen_same_pixels")
    return f'<p class="aside">{same}</p>'


def _count(seen: Predictions, lang: Language) -> str:
    if seen.boxes is not None:
        return sentences.count(len(seen.boxes), "object", lang)
    segments = sum(segment.label not in drawing.UNTINTED for segment in seen.segments or ())
    return sentences.count(segments, "segment", lang)


def _image(uri: str, alt: str) -> str:
    return f'<img src="{uri}" alt="{esc(alt)}" draggable="false">'


def _webp_uri(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=88)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
