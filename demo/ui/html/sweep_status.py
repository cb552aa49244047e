"""What a sweep would do, is doing and has done, as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from demo.core import format as fmt
from demo.core import hub
from demo.core.languages import Language
from demo.present import sentences
from demo.runs.forecast import SweepForecast
from demo.sweep.cells import Cell, downloads
from demo.ui.html.elements import drawn
from demo.ui.jobs.jobs import Sweep

BYTES_A_PARAMETER = 4
"""The published weights are float32."""


def opening(lang: Language) -> Markup:
    return drawn("sweep_status.opening", lang)


def plan(sweep: Sweep, lang: Language) -> Markup:
    forecast, wanted = sweep.forecast(), downloads(sweep.cells)
    stored = sum(cell.done for cell in sweep.cells)
    lines = []
    if forecast.cells:
        lines.append(lang.plain("sweep_plan_time", time=sentences.rounded_duration(forecast.seconds)))
    if wanted and hub.reachable():
        size = fmt.size(sum(entry.parameters for entry in wanted) * BYTES_A_PARAMETER)
        lines.append(lang.plain("sweep_plan_downloads", count=len(wanted), size=size))
    elif wanted:
        lines.append(lang.plain("sweep_plan_offline", count=len(wanted)))
    cells = lang.plain("sweep_plan_cells", cells=len(sweep.cells), stored=stored, run=forecast.cells)
    return drawn("sweep_status.plan", lang, cells, lines, Markup(guess(forecast, lang)))


def status(step: str, cells: Sequence[Cell], seconds: float | None, more: str, lang: Language) -> Markup:
    """`step` is the end of a text's key; `seconds` the time to go, if known; `more` HTML."""
    done, of_all = sum(cell.done for cell in cells), len(cells)
    counts: dict[str, object] = {"done": done, "of": of_all}
    if seconds and done < of_all:
        so_far = lang.plain("sweep_cells_to_go", time=sentences.rounded_duration(seconds), **counts)
    else:
        so_far = lang.plain("sweep_cells", **counts)
    return drawn("sweep_status.status", lang, lang.plain(f"sweep_{step}"), so_far, done, of_all, Markup(more))


def guess(forecast: SweepForecast, lang: Language) -> str:
    if not forecast.guessed:
        return ""
    return lang.html("sweep_guess", guessed=forecast.guessed, cells=forecast.cells)


def summary(cells: Sequence[Cell], lang: Language) -> str:
    verdicts = [cell.result.speedup.verdict for cell in cells if cell.result and cell.result.speedup]
    failed = sum(cell.result is None or cell.result.failure is not None for cell in cells)
    counts = {"faster": verdicts.count("faster"), "slower": verdicts.count("slower")}
    if failed:
        counts["failed"] = failed
    figures = lang.listed([lang.plain(f"sweep_{what}", count=count) for what, count in counts.items()])
    took = sum(cell.result.elapsed_seconds for cell in cells if cell.result)
    time = lang.plain_value(fmt.duration(took))
    return lang.marked(lang.composed("sweep_summary", figures=figures, time=time))
