"""The top of the result pane as HTML: the verdict with the speed-up on an axis, or a card for a failure."""

import functools
import json
import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from demo.core import catalog, format as fmt
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.core.stats import Interval
from demo.present import naming, race, verdict
from demo.ui.tabs.form_notes import source
from demo.ui.templates import percentage, render


def intro(checkpoint: str) -> Markup:
    """Returns what stands in the pane before the first run: the question, what Run will do, and a recorded run."""
    entry, name = catalog.find(checkpoint), naming.short(checkpoint)
    model = f"{name}: {entry.title}, {source(entry)}" if entry is not None else f"{name}, from the Hub"
    if catalog.id_refusal(checkpoint):
        model = ""
    return render("results.intro", model, race_of(_recorded_run(), plays=True), _recorded_run())


@functools.cache
def _recorded_run() -> RunResult:
    return from_json(json.loads((catalog.ASSETS / "recorded.json").read_text(encoding="utf-8")))


def headline(result: RunResult, recorded: bool = False) -> Markup:
    """Returns the verdict of a run as HTML. With `recorded`, the word "Recorded" and the date stand above it."""
    outcome, speedup = verdict.outcome(result), result.speedup
    if outcome is None or speedup is None:
        return failure(result)
    certain = outcome in ("faster", "slower")
    processes = [next(iter(one.figures.values())).within.ratio for one in result.as_processes()]
    several = processes if len(processes) > 1 else []
    return render(
        "results.headline",
        result,
        Markup(f"Recorded {fmt.minute(result.started_at)} UTC: " if recorded else "") + kicker(result),
        verdict.worth(result),
        verdict.worth_why(result),
        certain=certain,
        ruler=ruler(speedup, certain, speedup.floor, None if several else speedup.within, several),
        title=verdict.title(result),
    )


def failure(result: RunResult, ways_out: str = "") -> Markup:
    """Returns the card of a run without a speed-up: what happened and what to do. `ways_out` are links, as HTML."""
    failed, remedy = result.failure, ""
    if failed and failed.remedy and result.status != "cancelled":
        remedy = Markup("{} {}").format(failed.remedy, ways_out)
    message = failed.message if failed else "The run gave no figures."
    return render("results.card", naming.status(result), message, remedy, kicker(result), verdict.title(result))


def both_sizes(draw: Callable[[str], str]) -> Markup:
    """Returns what `draw` returns for "wide" (a page) and "narrow" (a phone). The style sheet shows one of the two."""
    return Markup("".join(map(draw, race.WIDTHS)))


def race_of(result: RunResult, plays: bool) -> Markup:
    """Returns a result's race, calls answered over time, animated if `plays`; '' for a result without a race."""
    return both_sizes(lambda size: race.of_result(result, size, plays=plays))


def kicker(result: RunResult) -> Markup:
    """Returns the small line above the verdict: settings, machine, time. The page for talks shows settings only."""
    line = naming.run_line(result).replace(" · ", "\N{NO-BREAK SPACE}· ")  # no line begins with the dot
    place = f"{naming.where(result)} · {fmt.minute(result.started_at)} UTC"
    return Markup('{}<span class="place"> · {}</span>').format(line, place)


def problem(title: str, message: str, remedy: str = "") -> Markup:
    """Returns a card that says what did not work. `remedy` is what to do."""
    return render("results.card", title, message, remedy)


# ---- the ruler

REACHES = {1.1: 1.05, 1.25: 1.1, 1.5: 1.25, 2: 1.5, 3: 2, 5: 2, 10: 3, 20: 5, 50: 10, 100: 10}
"""The ratios at which an axis may end, each with the ratio of the tick between 1 and this end."""


class Axis:
    """A logarithmic axis with 1 in the middle. It ends at the smallest of `REACHES` that leaves room for `ratios`."""

    def __init__(self, ratios: Iterable[float]) -> None:
        farthest = max(max(ratio, 1 / ratio) for ratio in ratios) * 1.03
        self.reach = next((limit for limit in REACHES if limit >= farthest), farthest)

    def place(self, ratio: float) -> float:
        """Returns the place of a ratio on the axis, from 0 at the left end to 1 at the right end."""
        return 0.5 + math.log(ratio) / math.log(self.reach) / 2

    def span(self, of: Interval) -> Markup:
        """Returns the place and the width of an interval as a style: "left:25.00%;width:10.00%"."""
        left, right = self.place(of.low), self.place(of.high)
        return Markup(f"left:{percentage(left)};width:{percentage(right - left)}")

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
    noise: How far eager, timed against itself, differed from itself: 0.004 is 0.4 %. Drawn as a band around 1.
    within: The narrower interval of one process alone, to be drawn as well; None for none.
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
