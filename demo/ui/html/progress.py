"""The result pane while a run goes on: phases, time, two or three lanes and the interval so far, as HTML.

gradio replaces only the nodes that differ. So the order and number of elements must not depend on the progress: then
bars only change their length.
"""

from __future__ import annotations

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.result import PROGRESS_CODES, Progress
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.ui.html.elements import bar, esc, lane_name, percentage, ruler

STEPS = ("load", "warm_up", "compile", "time", "check")
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def waiting(ahead: int, lang: Language) -> str:
    """While other runs are ahead. Their time is not known, so none is given."""
    who = lang.html("waiting_one") if ahead == 1 else lang.html("waiting_many", count=ahead)
    return (
        f'<section class="live"><p class="kicker">{lang.html("waiting")}</p>'
        f'<h2 class="display small">{who}</h2><p class="lead">{lang.html("waiting_lead")}</p></section>'
    )


def waiting_for_quiet(share: float, lang: Language) -> str:
    return (
        f'<section class="live"><p class="kicker">{lang.html("waiting")}</p>'
        f'<h2 class="display small">{lang.html("busy_machine", share=fmt.percent(share))}</h2>'
        f'<p class="lead">{lang.html("waiting_for_quiet")}</p></section>'
    )


def strip(progress: Progress, spec: RunSpec, lang: Language) -> str:
    step = STEP_OF_PHASE.get(progress.phase, 0)
    steps = "".join(_step(lang.html(f"step_{name}"), number - step) for number, name in enumerate(STEPS))
    return (
        f'<section class="live" aria-label="{esc(lang.plain("live"))}">'
        f'<p class="kicker">{lang.marked(sentences.settings_line(spec, lang))}</p>'
        f'<ol class="steps">{steps}</ol>'
        f'<div class="progress" role="progressbar" aria-label="{esc(lang.plain("progress"))}" '
        f'aria-valuemin="0" aria-valuemax="100" aria-valuenow="{progress.fraction * 100:.0f}">'
        f'<i style="width:{percentage(progress.fraction)}"></i></div>'
        f'<p class="clock"><span class="doing"><b>{_repeat(progress, lang)}</b>{doing(progress, lang)}</span>'
        f"<span>{_clock(progress, lang)}</span></p>"
        f'<div class="lanes">{_lanes(progress, spec, lang)}</div>'
        f"{_narrowing(progress, lang)}</section>"
    )


def _repeat(progress: Progress, lang: Language) -> str:
    """'Run 2 of 3 · '; '' for a run without repeats."""
    if progress.repeats == 1:
        return ""
    return f"{lang.html('progress_repeat', repeat=progress.repeat, repeats=progress.repeats)} · "


def doing(progress: Progress, lang: Language) -> str:
    """What the worker is doing, as HTML. A message with a code that this page does not know is quoted."""
    if progress.code in PROGRESS_CODES:
        return lang.html(f"progress_{progress.code}")
    if progress.message:
        return lang.quoted(progress.message)
    step = STEP_OF_PHASE.get(progress.phase, 0)
    return lang.html("doing_done" if step == len(STEPS) else f"doing_{STEPS[step]}")


def _step(name: str, distance: int) -> str:
    state = "done" if distance < 0 else "next" if distance else "now"
    current = ' aria-current="step"' if state == "now" else ""
    return f'<li class="{state}"{current}>{name}</li>'


def _clock(progress: Progress, lang: Language) -> str:
    elapsed = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is None:
        return lang.html("clock", elapsed=elapsed)
    if progress.remaining_seconds < 1:
        return lang.html("clock_nearly", elapsed=elapsed)
    return lang.html("clock_left", elapsed=elapsed, left=sentences.rounded_duration(progress.remaining_seconds))


def _lanes(progress: Progress, spec: RunSpec, lang: Language) -> str:
    """One bar a variant. The fastest shows how far the timing is; the others are shorter by their ratio so far."""
    seen = sentences.by_variant(
        progress.eager_seconds, progress.compiled_seconds, progress.with_break_seconds, spec.graph_break
    )
    fastest = min((seconds for seconds in seen.values() if seconds), default=0.0)
    done = 1.0 if progress.phase in ("check", "done") else progress.timing_done or 0.0
    lanes = "".join(
        f'<div class="lane">{lane_name(variant, lang)}{bar(variant, done * fastest / seconds if seconds else 0.0)}'
        f'<span class="value">{lang.value(fmt.latency(seconds) if seconds else "–")}</span>'
        f'<p class="counters">{_counters(progress, seconds, spec, lang)}</p></div>'
        for variant, seconds in seen.items()
    )
    rule = "lane_rule_token" if spec.unit == "token" else "lane_rule"
    return f'{lanes}<p class="rule">{lang.html(rule)}</p>'


def _counters(progress: Progress, seconds: float | None, spec: RunSpec, lang: Language) -> str:
    calls = str(progress.calls) if progress.calls else "–"  # what is shown before is a figure of the warm-up
    rate = fmt.rate(spec.batch_size / seconds) if seconds else "–"
    key = "counter_rate_token" if spec.unit == "token" else "counter_rate"
    return f"<span>{lang.html('counter_calls', calls=calls)}</span><span>{lang.html(key, rate=rate)}</span>"


def _narrowing(progress: Progress, lang: Language) -> str:
    interval = progress.speedup
    if interval is None:
        return f'<div class="narrowing empty"><p class="so-far">{lang.html("so_far_empty")}</p></div>'
    if interval.vague:
        so_far = lang.html("so_far_hardly")
    else:
        precision = f"±{fmt.percent(interval.half_width)}"
        ratio = fmt.estimate(interval.ratio, interval.low, interval.high)
        so_far = lang.html("so_far", ratio=ratio, precision=precision)
    axis = ruler(interval, not interval.vague, 0.0, lang)
    return f'<div class="narrowing"><p class="so-far">{so_far}</p>{axis}</div>'
