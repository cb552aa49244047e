"""The top of the result pane as HTML: the question before a run, its progress, and its verdict or failure."""

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup, escape

from ...core import catalog, format as fmt, program
from ...core.options import RunSpec
from ...core.progress import Progress
from ...core.result import RunResult
from ...core.result_json import from_json
from ...core.stats import Interval
from ...present import naming, race
from ...present.report import Report
from ..run_queue import RunQueue
from ..templates import percentage, render
from . import links
from .form import weights_source

RECORDED = program.ASSETS / "recorded"
"""The folder of the results that come with the project."""


def intro(checkpoint: str) -> Markup:
    """Returns what the pane shows before the first run: the question, what Run will do, and a recorded run."""
    entry, name = catalog.find(checkpoint), naming.short(checkpoint)
    model = f"{name}: {entry.title}, {weights_source(entry)}" if entry is not None else f"{name}, from the Hub"
    if catalog.id_refusal(checkpoint):
        model = ""
    recorded = Report(recorded_run(checkpoint))
    return render("results.intro", model, race_of(recorded, plays=True), recorded.result)


@functools.cache
def recorded_runs() -> tuple[RunResult, ...]:
    """Returns the results that come with the project. `tools/record.py` recorded each of them on another machine."""
    files = sorted(RECORDED.glob("*.json"), key=lambda file: (len(file.stem), file.stem))  # plain runs first
    return tuple(from_json(json.loads(file.read_text(encoding="utf-8"))) for file in files)


def recorded_run(checkpoint: str) -> RunResult:
    """Returns the recorded run of a checkpoint; else a recorded run of its task; else any recorded run."""
    entry = catalog.find(checkpoint)
    of_model = [run for run in recorded_runs() if run.spec.checkpoint == checkpoint]
    of_task = [run for run in recorded_runs() if entry is not None and run.spec.task == entry.task]
    return [*of_model, *of_task, *recorded_runs()][0]


def headline(report: Report, recorded: bool = False) -> Markup:
    """Returns the verdict of a run as HTML. With `recorded`, "Recorded", date and machine are shown above it.

    For a run without a speed-up it returns a card: what happened, and what to do.
    """
    result, speedup = report.result, report.speedup
    if speedup is None:
        failed = result.failure
        message, remedy = failed.message if failed else "The run gave no figures.", ""
        if failed and failed.remedy and result.status != "cancelled":
            remedy = Markup("{} {}").format(failed.remedy, links.change_links(result.spec, failed.change))
        return render("results.card", naming.status_words(result), message, remedy, kicker(result), report.title)
    figures = [process.figures[result.main] for process in result.as_processes() if result.main in process.figures]
    several = [figure.within.ratio for figure in figures] if len(figures) > 1 else []
    within = None if several else speedup.within
    return render(
        "results.headline",
        report,
        kicker(result, recorded),
        ruler(speedup, report.decided and not report.ranged, speedup.floor, within, several),
        links.change_links(result.spec, {"mode": "reduce-overhead"}, run=True) if report.launching else "",
    )


def all_sizes(draw: Callable[[str], str]) -> Markup:
    """Returns a picture in each size of `race.SIZES`, as HTML. The style sheet shows one of them.

    `draw` returns the picture for the name of a size.
    """
    return Markup("".join(map(draw, race.SIZES)))


def race_of(report: Report, plays: bool) -> Markup:
    """Returns the chart of calls over time of a result, animated if `plays`; '' for a result that has none."""
    return all_sizes(lambda size: race.picture(report.race, size, plays=plays))


def kicker(result: RunResult, recorded: bool = False) -> Markup:
    """Returns the small line above the verdict: settings, machine, time. In stage mode only the settings are visible.

    With `recorded`, "Recorded", time and machine come first, even in stage mode. An audience would otherwise think that
    the run was made now.
    """
    line = naming.run_line(result).replace(" · ", "\N{NO-BREAK SPACE}· ")  # no line begins with the dot
    if recorded:
        when = f"Recorded {fmt.minute(result.started_at)} UTC on {naming.where(result)}: "
        return Markup("{}{}").format(when, line)
    place = f"{naming.where(result)} · {fmt.minute(result.started_at)} UTC"
    return Markup('{}<span class="place"> · {}</span>').format(line, place)


# ---- a run that goes on

RUN_STEPS = {
    "Load": "Reading the model and its input",
    "Warm up": "First calls of the eager model",
    "Compile": "Compiling: a one-time cost on the first call",
    "Time": "Timing eager and compiled in turn",
    "Check": "Comparing the outputs of both",
}
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def progress_strip(progress: Progress, spec: RunSpec, late: str = "") -> Markup:
    """Returns the display of a run in progress as HTML. `late`: a hint for a speaker if the run takes long, else ''."""
    speedup = progress.speedup
    # always the same elements in the same order: then gradio replaces only those that differ, and redraws no chart
    return render(
        "progress.strip",
        spec,
        progress,
        list(RUN_STEPS),
        STEP_OF_PHASE.get(progress.phase, 0),
        doing(progress),
        compile_parts(progress),
        all_sizes(lambda size: race.of_progress(progress, spec, size)),
        ruler(speedup, not speedup.too_wide, 0.0) if speedup is not None else "",
        late,
    )


COMPILE_PARTS = {
    "dynamo": "tracing",
    "aot_autograd": "lowering",
    "inductor": "code",
    "backend compile": "C++ or Triton",
}
"""Short names of the parts of a compile, by torch's names."""


def compile_parts(progress: Progress) -> str:
    """Returns how long each part of the compilation has taken so far, "Tracing 2.1 s · lowering 0.6 s.".

    '' before the compilation begins.
    """
    steps = progress.compile_steps
    if not steps:
        return ""
    end = progress.first_seconds if progress.first_seconds is not None else progress.racing_seconds or 0.0
    seconds: dict[str, float] = {}
    for (name, begin), (_, next_begin) in itertools.pairwise((*steps, ("", end))):
        seconds[name] = seconds.get(name, 0.0) + max(0.0, next_begin - begin)
    parts = " · ".join(f"{COMPILE_PARTS.get(name, name)} {fmt.duration(taken)}" for name, taken in seconds.items())
    going = progress.first_seconds is None and (progress.graphs or progress.breaks)
    counted = f" Graphs so far: {progress.graphs}, breaks: {progress.breaks}." if going else ""
    return f"{fmt.capital(parts)}.{counted}"


def waits(ahead: int, queue: RunQueue) -> str:
    """Returns 'Runs ahead of yours: 1, the first ends in about 20 s.' `ahead`: how many runs go first.

    A search or a sweep of another visitor counts as one run, because only its next run is in the queue.
    """
    ends = f", the first ends in about {fmt.rounded_duration(left)}" if (left := queue.seconds_left) else ""
    return f"Runs ahead of yours: {ahead}{ends}."


def doing(progress: Progress) -> Markup:
    """Returns what the worker process is doing: "First calls of the eager model"."""
    step = [*RUN_STEPS.values(), "Done"][STEP_OF_PHASE.get(progress.phase, 0)]
    return escape(fmt.capital(naming.worker_word(progress.code)) if progress.code else step)


# ---- the ruler

REACHES = {1.1: 1.05, 1.25: 1.1, 1.5: 1.25, 2: 1.5, 3: 2, 5: 2, 10: 3, 20: 5, 50: 10, 100: 10}
"""{end of an axis of speed-ups: its tick between 1 and the end}. The axis to 1.5 has ticks at 0.67, 0.8, 1, 1.25 and
1.5."""


class Axis:
    """A logarithmic axis for speed-ups, with 1 in the middle.

    It ends at the smallest round ratio (`REACHES`) beyond all `ratios` and their reciprocals; if there is none, just
    beyond these. It begins at 1 divided by its end.
    """

    def __init__(self, ratios: Iterable[float]) -> None:
        farthest = max(max(ratio, 1 / ratio) for ratio in ratios) * 1.03
        self.reach = next((limit for limit in REACHES if limit >= farthest), farthest)

    def place(self, ratio: float) -> float:
        """Returns the position of a ratio on the axis, from 0 at the left end to 1 at the right end."""
        return 0.5 + math.log(ratio) / math.log(self.reach) / 2

    def span(self, of: Interval) -> str:
        """Returns the position and the width of an interval as a CSS style: "left:25.00%;width:10.00%"."""
        left, right = self.place(of.low), self.place(of.high)
        return f"left:{percentage(left)};width:{percentage(right - left)}"

    @property
    def ticks(self) -> list[tuple[float, str]]:
        between = REACHES.get(self.reach, math.sqrt(self.reach))
        ratios = (1 / self.reach, 1 / between, 1.0, between, self.reach)
        return [(self.place(ratio), f"{ratio:.2g}×" if ratio < 1 else f"{ratio:.3g}×") for ratio in ratios]


def ruler(
    speedup: Interval, known: bool, noise: float, within: Interval | None = None, processes: Sequence[float] = ()
) -> Markup:
    """Returns the interval of the speed-up on an axis as HTML.

    known: Whether to write the ratio above the axis.
    noise: By how much two timings of eager in one run differed: 0.004 is 0.4 %. Drawn as a band around 1.
    within: The narrower interval that one process alone gives, also drawn; None: not drawn.
    processes: The speed-ups of several processes, drawn as dots.
    """
    low, high = speedup.low, speedup.high
    axis = Axis([low, high, 1 + noise, *processes])
    (_, start), *_, (_, end) = axis.ticks
    name = f"Speed-up {fmt.ends(low, high)} on an axis from {start} to {end}"
    if processes:
        name += f"; processes: {', '.join(map(fmt.ratio, processes))}"
    ratio = fmt.estimate(speedup.ratio, low, high) if known else ""
    return render("elements.ruler", name, axis, speedup, within, processes, noise, ratio)
