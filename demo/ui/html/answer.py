"""The texts that eager and compiled wrote, token by token, as HTML. Every text from outside is escaped."""

from __future__ import annotations

from demo.core.languages import Language
from demo.core.outputs import Predictions
from demo.core.result import RunResult
from demo.present import text_answer
from demo.ui.html.elements import VARIANTS, esc, lane_name

PLAY = """
element.addEventListener('click', event => {
  const written = event.target.closest('.play')?.closest('.written');
  if (!written) return;
  written.classList.remove('playing');
  void written.offsetWidth;  // without a layout in between the animation would not begin anew
  written.classList.add('playing');
});
"""
"""Writes both texts again, each token after the time that it took."""
SECONDS = 6.0
"""What eager's answer should take at least, played."""
SLOWED = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def section(result: RunResult, seen: dict[str, Predictions], notes: str, lang: Language) -> str:
    """The prompt, and below it both answers. `notes` is HTML."""
    starts = result.prefill_latencies or (0.0, 0.0)
    steps = [result.latencies.get(variant, 0.0) for variant in VARIANTS]
    slowed = _slowed(result)
    columns = "".join(
        f'<div class="version">{lane_name(variant, lang)}'
        f"{_tokens(seen[variant], start * slowed, step * slowed, text_answer.parted_at(result))}</div>"
        for variant, start, step in zip(VARIANTS, starts, steps, strict=True)
    )
    parted = text_answer.parted(result, lang)
    words = f"<p>{lang.marked(parted)}</p>" if parted else ""
    speed = f"<small>{lang.html('answer_slowed', times=slowed)}</small>" if slowed > 1 else ""
    play = f'<p class="player"><button type="button" class="play">▶ {lang.html("answer_play")}</button> {speed}</p>'
    given = f'<b>{lang.html("answer_prompt")}</b> <span dir="auto">{esc(result.spec.prompt)}</span>'
    heading = f"<h3>{lang.html('what_the_model_writes')}</h3>"
    return (
        f'<section class="evidence">{heading}{notes}{words}<p class="prompt">{given}</p>'
        f'<div class="written">{play}<div class="versions"{lang.ltr}>{columns}</div></div></section>'
    )


def _slowed(result: RunResult) -> int:
    """How many times slower than measured the answers are played."""
    answer = result.answer_seconds
    if answer is None or not answer[0]:
        return 1
    return next((times for times in SLOWED if times * answer[0] >= SECONDS), SLOWED[-1])


def _tokens(written: Predictions, start: float, step: float, parted: int | None) -> str:
    """`start` and `step` are the seconds of the first token and of each further one, as they are played."""
    spans = "".join(
        f'<span{_class(index, parted)} style="--at:{start + index * step:.3f}s">{esc(piece)}</span>'
        for index, piece in enumerate(written.pieces or ())
    )
    return f'<p class="tokens" dir="auto">{spans}</p>'


def _class(index: int, parted: int | None) -> str:
    return ' class="parted"' if index == parted else ""
