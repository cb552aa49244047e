"""The card of a run: one picture with its answer, to take home; and the title of the run's page."""

import io

from PIL import Image, ImageDraw

from demo.core import catalog, format as fmt
from demo.core.result import RunResult
from demo.present import naming, pictures, verdict
from demo.present.pictures import COMPILED, EAGER, PAGE_INK, PAGE_MUTED, font_for, printable_label

WIDTH, HEIGHT = 1200, 630
_EDGE = 48
_BAR_START, _BESIDE = _EDGE + 170, 330
"""Where the bars begin, and the room for the texts beside the longer one."""


def title(result: RunResult) -> str:
    """'shapes-vit 1.14× faster', 'shapes-vit: Too noisy to tell', 'shapes-vit: Out of memory'; without tags."""
    named, text = printable_label(naming.short(result.spec.checkpoint)), answer(result)
    colon = "" if verdict.outcome(result) in ("faster", "slower") else ":"
    return f"{named}{colon} {text}"


def answer(result: RunResult) -> str:
    """'1.14× faster', '2.00× slower', 'no difference', 'too noisy to tell', 'Out of memory'."""
    return verdict.answer(result) or naming.status(result)


def model(result: RunResult) -> str:
    """The checkpoint of the run, without the folders of one that is on this machine."""
    named = result.spec.checkpoint
    return naming.short(named) if catalog.is_folder(named) else named


def card(result: RunResult) -> bytes:
    """A PNG of `WIDTH` x `HEIGHT` pixels, in English: what was asked, on which machine, the answer, what it rests on.

    Readable at a third of its size, in which chats show it. A run without figures has no more than its status.
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), pictures.PAGE_PAPER)
    pen = ImageDraw.Draw(image)
    pen.rectangle((_EDGE, 34, _EDGE + 47, 49), EAGER)
    pen.rectangle((_EDGE, 56, _EDGE + 27, 71), COMPILED)
    pen.rectangle((_EDGE, 92, WIDTH - _EDGE - 1, 94), PAGE_INK)
    pen.rectangle((0, HEIGHT - 10, WIDTH, HEIGHT), pictures.PAGE_LINE)
    torch = f"torch {result.environment.torch}" if result.environment is not None else ""
    where = " · ".join(filter(None, (naming.where(result), torch, result.started_at[:10])))
    _line(pen, 66, "Worth compiling?", 36, bold=True, x=_EDGE + 66)
    _line(pen, 141, model(result), 38, bold=True)
    _line(pen, 182, naming.run_settings(result), 30, colour=PAGE_MUTED)
    _line(pen, 222, where, 28, colour=PAGE_MUTED)
    _line(pen, 350, fmt.capital(answer(result)), 130, bold=True)
    if verdict.outcome(result) is not None:
        _bars(result, pen)
        _line(pen, 553, verdict.worth(result), 32)
        text = fmt.capital(verdict.interval(result))
        text = f"{text}; with added graph breaks" if result.spec.graph_break else text
        _line(pen, 598, text, 28, colour=PAGE_MUTED)
    file = io.BytesIO()
    image.quantize(64, dither=Image.Dither.NONE).save(file, "PNG")  # a third of the bytes, in the same time
    return file.getvalue()


def _bars(result: RunResult, pen: ImageDraw.ImageDraw) -> None:
    """Eager and compiled from zero, on one scale, with their latencies."""
    one = result.spec.unit == "token" and result.spec.batch_size == 1
    scale = (WIDTH - _EDGE - _BAR_START - _BESIDE) / max(result.latencies.values())
    for (variant, seconds), top, colour in zip(result.latencies.items(), (392, 454), (EAGER, COMPILED), strict=True):
        end = _BAR_START + max(4, round(scale * seconds))
        _line(pen, top + 36, variant.capitalize(), 34)
        pen.rectangle((_BAR_START, top, end - 1, top + 47), colour)
        taken = _line(pen, top + 38, fmt.latency(seconds), 38, bold=True, x=end + 18)
        per = "per token" if one else "per call"
        _line(pen, top + 38, per, 28, colour=PAGE_MUTED, x=end + 36 + taken)


def _line(
    pen: ImageDraw.ImageDraw, y: int, text: str, size: int, bold: bool = False, colour: str = PAGE_INK, x: float = _EDGE
) -> float:
    """Writes a line with its baseline at `y`, smaller where it is too wide; returns its width."""
    room = WIDTH - _EDGE - x
    text = printable_label(text, int(room / 10))
    width = font_for(size, bold).getlength(text)
    if width > room:
        size = int(size * room / width)
    font = font_for(size, bold)
    pen.text((x, y), text, colour, font, "ls")
    return font.getlength(text)
