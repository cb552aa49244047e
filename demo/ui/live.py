"""The stage while a run goes: phases, time, two lanes and the narrowing interval, as one piece of HTML.

gradio changes only those nodes that differ, so the order and number of elements here must not depend on the
progress: then bars change their length and nothing else is drawn anew.
"""

from __future__ import annotations

from demo import format as fmt
from demo.schema import Progress, RunSpec
from demo.ui.parts import bar, esc, lane_name, percentage, ruler

STEPS = ("Load", "Warm up", "Compile", "Time", "Check")
_STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}
_DOING = (
    "Reading the model and the picture",
    "First calls of the eager model",
    "torch.compile is at work: the first call pays for all later ones",
    "Eager and compiled take turns",
    "Comparing what the two saw",
    "Done",
)


def waiting(ahead: int) -> str:
    """While others are in front; nobody is promised a time that nobody knows."""
    who = "One run is" if ahead == 1 else f"{ahead} runs are"
    return (
        '<section class="live"><p class="kicker">Waiting</p>'
        f'<h2 class="display small">{who} ahead of yours.</h2>'
        '<p class="lead">Runs go one at a time, so that none disturbs the timing of another. '
        "Yours starts by itself; Cancel leaves the line.</p></section>"
    )


def strip(progress: Progress, spec: RunSpec) -> str:
    step = _STEP_OF_PHASE.get(progress.phase, 0)
    steps = "".join(_step(name, number - step) for number, name in enumerate(STEPS))
    return (
        '<section class="live" aria-label="The run in progress">'
        f'<p class="kicker">{esc(spec.checkpoint)} · batch {spec.batch_size} · {esc(spec.mode)} · {esc(spec.dtype)}</p>'
        f'<ol class="steps">{steps}</ol>'
        f'<div class="progress" role="progressbar" aria-label="Progress" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{progress.fraction * 100:.0f}"><i style="width:{percentage(progress.fraction)}"></i></div>'
        f'<p class="clock"><span class="doing">{esc(progress.message or _DOING[step])}</span>'
        f"<span>{_clock(progress)}</span></p>"
        f'<div class="lanes">{_lanes(progress, spec)}</div>'
        f"{_narrowing(progress)}</section>"
    )


def _step(name: str, distance: int) -> str:
    state = "done" if distance < 0 else "next" if distance else "now"
    current = ' aria-current="step"' if state == "now" else ""
    return f'<li class="{state}"{current}>{name}</li>'


def _clock(progress: Progress) -> str:
    elapsed = f"{fmt.duration(progress.elapsed_seconds)} elapsed"
    if progress.remaining_seconds is None:
        return elapsed
    if progress.remaining_seconds < 1:
        return f"{elapsed} · nearly done"
    return f"{elapsed} · about {fmt.duration(progress.remaining_seconds)} left"


def _lanes(progress: Progress, spec: RunSpec) -> str:
    """A race over equal time: the faster one is as far as the timing is, the other behind it by the speed-up so far."""
    seen = {"eager": progress.eager_seconds, "compiled": progress.compiled_seconds}
    fastest = min((seconds for seconds in seen.values() if seconds), default=0.0)
    done = 1.0 if progress.phase in ("check", "done") else progress.timing_done or 0.0
    lanes = "".join(
        f'<div class="lane">{lane_name(variant)}{bar(variant, done * fastest / seconds if seconds else 0.0)}'
        f'<span class="value">{fmt.latency(seconds) if seconds else "–"}</span>'
        f'<p class="counters">{_counters(progress, seconds, spec)}</p></div>'
        for variant, seconds in seen.items()
    )
    return f'{lanes}<p class="rule">A lane shows the pictures served in equal time. In truth the two take turns.</p>'


def _counters(progress: Progress, seconds: float | None, spec: RunSpec) -> str:
    calls = str(progress.calls) if seconds else "–"
    rate = fmt.rate(spec.batch_size / seconds).split() if seconds else ["–", "images/s"]
    return f"<span><b>{calls}</b> calls</span><span><b>{rate[0]}</b> {rate[1]}</span>"


def _narrowing(progress: Progress) -> str:
    interval = progress.speedup
    if interval is None:
        return '<div class="narrowing empty"><p class="so-far">The speed-up so far appears here.</p></div>'
    width = interval.half_width
    known = f"known to ±{fmt.percent(width)}" if width < 0.5 else "hardly known yet"
    said = f"So far {fmt.ratio(interval.ratio)}, {known}"
    axis = ruler(interval.ratio, interval.low, interval.high, 0.0)
    return f'<div class="narrowing"><p class="so-far">{said}</p>{axis}</div>'
