"""Answers what compiling saves or costs a process in total, for a given number of calls between two restarts.

- In words: `calls_sentence`, for one number of calls.
- As a strip of colours along an axis of calls: its colour at a number of calls names the fastest way to run the model.
- As a slider: HTML that whole_work.js updates, in the page and in the file that a user sends to others.

If the intervals do not tell whether eager is the fastest, the strip says "cannot be told". The sentence says the same
for several ways to compile; for a single way it says 'may cost 5.0 s or save 9.0 s'.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from ..core import format as fmt
from ..core.comparison import WayCost, known_best
from ..core.stats import Duration, difference
from .colours import COMPILED, EAGER
from .race import Below
from .report import Report

DECADES, STEPS_A_DECADE = 8, 50
"""The axis goes from 1 to 10^8 calls, in 50 steps a decade: each is 5 % more calls."""
USUAL_CALLS = 10_000
"""Number of calls at which the slider stands if neither the user nor a link gave one."""
TICK_TEXTS = {0: "1", 2: "100", 4: "10\N{NARROW NO-BREAK SPACE}000", 6: "1 million", 8: "100 million"}
"""The texts below the axis by decade."""
LETTER = 7
"""Mean width of a letter in a coloured strip, in pixels. A text that is too wide for its part of the strip is left
out."""
NARROWEST = 320
"""Width of a coloured strip on a phone, in pixels."""
STRIP_HEIGHT = 22
NOT_TOLD = "cannot be told"


@dataclass(frozen=True)
class Choice:
    """The ways to run a model, eager first. The number of calls decides which way takes the least time in total."""

    starts: Mapping[str, Mapping[str, WayCost]]
    """What each way costs, by the state of the compile cache in words ('from nothing') and by the way's name."""
    noun: str
    """What is counted: 'call' or 'token'."""
    images: int = 1
    """How many pictures a call has."""
    tokens: int = 1
    """How many tokens a step of a text model gives. The slider counts tokens, the race (chart of calls over time)
    counts steps."""
    doubt: str = ""
    """A clause that limits all figures: 'if its outputs are right'; '' for none."""


def choice_of(report: Report) -> Choice | None:
    """Returns eager and compiled, with their measured costs, as the choice between them.

    Returns None if no cost can be relied on.
    """
    result = report.result
    if report.kind is None or not result.whole_work(1):
        return None
    starts = {}
    for start in report.starts:
        if (both := result.costs(start.state)) is not None:
            starts[start.name] = dict(zip(("eager", "compiled"), both, strict=True))
    doubt = "if its outputs are right" if result.outputs_unknown else ""
    images = result.spec.batch_size if result.spec.sees_picture else 1
    return Choice(starts, result.main, images, result.tokens_a_call, doubt)


# ---- in words. whole_work.js says the same


def calls_sentence(report: Report, calls: int) -> str:
    """Returns 'At 40 000 calls compiling saves 21 s (9.0 to 33 s) from nothing, ...'; '' if no saving is known."""
    choice = choice_of(report)
    if choice is None:
        return ""
    parts = [f"{answer(ways, calls)} {start}" for start, ways in choice.starts.items()]
    return ", ".join(
        [f"At {fmt.count(calls, choice.noun)} compiling {parts[0]}", *parts[1:], *filter(None, [choice.doubt])]
    )


def answer(ways: Mapping[str, WayCost], calls: int) -> str:
    """Returns what compiling saves or costs over `calls` calls: 'saves 21 s (9.0 to 33 s)'.

    `ways`: the costs of eager and of each way to compile. A single way is named, 'freezing saves 21 s (...)', unless
    its name is 'compiled'. Of several ways the text names the best, or says that eager is the best or that this cannot
    be told.
    """
    best = known_best(ways, calls)
    eager, *others = ways
    if len(others) == 1:
        return f"{others[0]} {amount(_saving(ways, others[0], calls))}".removeprefix("compiled ")
    if best == [eager]:
        return "eager is known to be the best"
    if eager in best:
        return f"{NOT_TOLD}: {_any_of(best)}"
    winner = best_guess(ways, best, calls)
    rest = [name for name in best if name != winner]
    return f"{winner} {amount(_saving(ways, winner, calls))}" + (f", {NOT_TOLD} from {_any_of(rest)}" if rest else "")


def amount(saved: Duration) -> str:
    """Returns 'saves 21 s (9.0 to 33 s)', 'costs 12 s (7.0 to 21 s)' or 'may cost 5.0 s or save 9.0 s'."""
    if saved.low > 0:
        return f"saves {fmt.duration(saved.seconds)} ({fmt.duration_range(saved.low, saved.high)})"
    if saved.high < 0:
        return f"costs {fmt.duration(-saved.seconds)} ({fmt.duration_range(-saved.high, -saved.low)})"
    return f"may cost {fmt.duration(-saved.low)} or save {fmt.duration(saved.high)}"


def best_guess(ways: Mapping[str, WayCost], best: list[str], calls: int) -> str:
    """Returns the way to recommend for `calls` calls. `best`: the ways that may be the fastest for this number.

    Each way is judged by the upper end of the interval of its total time. Returns the first way in `best` that is at
    most 5 % above the least of these ends.
    """
    most = {name: ways[name].total(calls).high for name in best}
    return next(name for name in best if most[name] <= 1.05 * min(most.values()))


def _saving(ways: Mapping[str, WayCost], name: str, calls: int) -> Duration:
    return difference(next(iter(ways.values())).total(calls), ways[name].total(calls))


def _any_of(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


# ---- the strip


@dataclass(frozen=True)
class StripPart:
    """One colour's part of a strip. A strip is a bar whose colours show which way is the best for how many calls."""

    begin: float
    end: float
    """`begin` and `end` of the part, as shares of the axis from 0 to 1."""
    kind: str
    """CSS class: 'eager', 'compiled', 'several' (compiled, but not known which way) or 'unknown'."""
    words: str


def calls_at(step: int) -> int:
    """Returns the number of calls at a step of the slider: 1 at step 0, 10 at step 50.

    It is rounded to two significant digits, and below 10 then cut to a whole number: 1 at step 14, which is 1.9.
    """
    return int(float(f"{10 ** (step / STEPS_A_DECADE):.1e}"))


def segments(ways: Mapping[str, WayCost]) -> list[StripPart]:
    """Returns the parts of a coloured strip, from left to right.

    Within a part the same ways may be the fastest, or it cannot be told whether eager is.
    """
    last = DECADES * STEPS_A_DECADE
    answers = [_verdict(ways, calls_at(step)) for step in range(last + 1)]
    parts, step = [], 0
    for (kind, words), alike in groupby(answers):
        begin, step = step, step + len(list(alike))
        parts.append(StripPart(max(0, begin - 0.5) / last, min(last, step - 0.5) / last, kind, words))
    return parts


def _verdict(ways: Mapping[str, WayCost], calls: int) -> tuple[str, str]:
    best, eager = known_best(ways, calls), next(iter(ways))
    if best == [eager]:
        return "eager", eager
    if eager in best:
        return "unknown", NOT_TOLD
    return ("compiled", best[0]) if len(best) == 1 else ("several", _any_of(best))


def strip(ways: Mapping[str, WayCost], title: str, size: str = 'width="100%"', narrowest: float = NARROWEST) -> str:
    """Returns a strip as SVG: a bar whose colours show which way is the best for how many calls.

    - `title`: what screen readers read first. `size`: SVG attributes with the bar's place and width.
    - `narrowest`: the width in pixels of the bar on the narrowest screen. Texts that would not fit there are left out.
    """
    parts, texts, along = [], [], segments(ways)
    for part in along:
        width = part.end - part.begin
        parts.append(f'<rect class="{part.kind}" x="{part.begin:.2%}" width="{width:.2%}" height="100%"/>')
        if part.kind == "unknown":  # stripes, drawn as the dashes of one thick line: a pattern needs a name
            parts.append(f'<line x1="{part.begin:.2%}" x2="{part.end:.2%}" y1="50%" y2="50%"/>')
        if len(part.words) * LETTER < width * narrowest:
            place = f'x="{(part.begin + part.end) / 2:.2%}" y="50%" dy="0.35em" text-anchor="middle"'
            texts.append(f'<text class="on-{part.kind}" {place}>{escape(part.words)}</text>')
    ranges = [f"{part.words} up to {_calls_text(part.end)}" for part in along[:-1]]
    label = escape(f"{title}: {', then '.join([*ranges, along[-1].words])}")
    return (
        f'<svg class="strip" xmlns="http://www.w3.org/2000/svg" {size} height="{STRIP_HEIGHT}" role="img" '
        f'aria-label="{label}">{_STYLE}{"".join(parts)}{"".join(texts)}</svg>'
    )


def at_rest(report: Report) -> Below | None:
    """Returns a run's coloured strips as SVG, with a question and an axis, to be drawn below its race in a file.

    Returns None if it is not known what compiling saves.
    """
    choice = choice_of(report)
    if choice is None:
        return None
    parts, y = [f'<text class="small" y="14">{question(choice)}</text>'], 22
    for start, ways in choice.starts.items():
        y += 16
        parts.append(f'<text y="{y}">{escape(fmt.capital(start))}</text>')
        parts.append(strip(ways, fmt.capital(start), f'y="{y + 6}" width="100%"', narrowest=700))
        y += 6 + STRIP_HEIGHT + 4
    for decade, words in TICK_TEXTS.items():
        anchor = "start" if decade == 0 else "end" if decade == DECADES else "middle"
        parts.append(
            f'<text class="small" x="{decade / DECADES:.1%}" y="{y + 12}" text-anchor="{anchor}">{words}</text>'
        )
    return Below("".join(parts), y + 18)


def question(choice: Choice) -> str:
    return f"How many {choice.noun}s between two restarts?"


def _calls_text(share: float) -> str:
    return fmt.group_thousands(calls_at(round(share * DECADES * STEPS_A_DECADE)))


_STYLE = f"""<style>
.strip {{ display: block; }}
.strip .eager {{ fill: var(--eager, {EAGER}); }}
.strip .compiled {{ fill: var(--compiled, {COMPILED}); }}
.strip .several {{ fill: var(--compiled, {COMPILED}); fill-opacity: 0.35; }}
.strip .unknown {{ fill: var(--soft, #ebe9e1); }}
.strip line {{ stroke: var(--edge, #83868a); stroke-width: {STRIP_HEIGHT}; stroke-dasharray: 1 5; }}
.strip text {{ font: 13px var(--font, system-ui, sans-serif); fill: var(--ink, #1f2328); }}
.strip .on-eager {{ fill: #000; }}
.strip .on-compiled {{ fill: var(--on-compiled, #fff); }}
.strip .on-unknown {{ paint-order: stroke; stroke: var(--soft, #ebe9e1); stroke-width: 6px; stroke-linejoin: round; }}
</style>"""


# ---- the slider


@cache
def file_text(name: str) -> str:
    """Returns the text of a file in this file's folder: 'whole_work.js' or 'whole_work.css'."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def slider(choice: Choice | None, calls: int = USUAL_CALLS, rate: str = "") -> str:
    """Returns the slider with its strips as HTML, set to `calls`; '' if `choice` is None. whole_work.js updates it.

    `rate`: the calls per time that the user typed, such as '2/s'; `calls` is then the number of calls in a day at this
    rate. '' if the user typed a number of calls.
    """
    if choice is None:
        return ""
    rows = "".join(
        f'<p class="start"><span>{escape(fmt.capital(start))}:</span> '
        f"<b>{escape(unbroken(answer(ways, calls)))}</b></p>"
        f'<div class="along">{strip(ways, fmt.capital(start))}<i class="here"></i></div>'
        for start, ways in choice.starts.items()
    )
    ticks = "".join(f'<span style="left:{decade / DECADES:.1%}">{words}</span>' for decade, words in TICK_TEXTS.items())
    last, asks = DECADES * STEPS_A_DECADE, question(choice)
    # stage mode has room for the short one only
    short = f"{choice.noun.capitalize()}s {'a day' if rate else 'between restarts'}"
    heading = f'<b><span class="long">{asks}</span><span class="short">{short}</span></b>'
    hint = "A number, or a rate such as 2/s: a day of it"
    many, typed = fmt.count(calls, choice.noun), fmt.group_thousands(calls)
    takes, by_rate = eager_takes(choice, calls), ""
    if rate:
        many, typed, by_rate = f"{many} a day", escape(rate), f'data-rate="{escape(rate)}" '
        takes = f"{many}. {takes}"
    doubt = f'<p class="note">{fmt.sentence(choice.doubt)}</p>' if choice.doubt else ""
    return (
        f'<section class="whole-work" data-calls="{calls}" {by_rate}data-work="{escape(slider_data(choice))}" '
        f'style="--at:{_share(calls):.2%}">'
        f"<style>{file_text('whole_work.css')}</style>"
        f'<div class="ask">{heading}<input type="text" class="typed" autocomplete="off" spellcheck="false" '
        f'value="{typed}" aria-label="{asks}" title="{hint}">'
        f'<span class="eager-takes">{takes}</span></div>'
        f'<input type="range" min="0" max="{last}" step="1" value="{round(last * _share(calls))}" '
        f'aria-label="{asks}" aria-valuetext="{many}">'
        f'<div class="ticks" aria-hidden="true">{ticks}</div>{rows}{doubt}<p class="aloud" role="status"></p></section>'
    )


def unbroken(words: str) -> str:
    """Returns `words` with no-break spaces within each duration: no line ends in the middle of '4 min 55 s'."""
    within = r"(?<=\d) (?=(?:ms|s|min|h|days)\b)|(?:(?<=\d min)|(?<=\d h)) (?=\d)"
    return re.sub(within, "\N{NO-BREAK SPACE}", words)


def eager_takes(choice: Choice, calls: int) -> str:
    """Returns 'Eager takes 2 min 4 s.'; if a call has several pictures, 'Eager takes 2 min 4 s for 80 000 images.'"""
    eager = next(iter(next(iter(choice.starts.values())).values()))
    images = f" for {fmt.count(calls * choice.images, 'image')}" if choice.images > 1 else ""
    return f"Eager takes {fmt.duration(eager.total(calls).seconds)}{images}."


def slider_data(choice: Choice) -> str:
    """Returns the data for whole_work.js as JSON: the fields of `choice` except `doubt`.

    The seconds of a first and of a further call are each given as [estimate, low, high]. The last two are the ends of
    the 95 % interval.
    """
    starts = {
        start: {name: [_ends(cost.first), _ends(cost.call)] for name, cost in ways.items()}
        for start, ways in choice.starts.items()
    }
    data = {"noun": choice.noun, "images": choice.images, "tokens": choice.tokens, "starts": starts}
    return json.dumps(data, allow_nan=False, separators=(",", ":"))


def _ends(duration: Duration) -> list[float]:
    return [duration.seconds, duration.low, duration.high]


def _share(calls: int) -> float:
    return math.log10(calls) / DECADES
