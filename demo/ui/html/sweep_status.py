"""What a sweep would do, is doing and has done, as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from demo.core import format as fmt
from demo.core import hub
from demo.core.languages import Language
from demo.present import sentences
from demo.runs.forecast import SweepForecast
from demo.sweep.cells import Cell, downloads
from demo.ui.html.elements import esc
from demo.ui.jobs.sweeps import Sweep

BYTES_A_PARAMETER = 4
"""The published weights are float32."""


def opening(lang: Language) -> str:
    return (
        f'<section class="question"><p class="kicker">{lang.html("sweep_before")}</p>'
        f'<h2 class="display small">{lang.html("sweep_question")}</h2>'
        f'<p class="lead">{lang.html("sweep_lead")}</p></section>'
    )


def plan(sweep: Sweep, lang: Language) -> str:
    forecast, wanted = sweep.forecast(), downloads(sweep.cells)
    stored = sum(cell.done for cell in sweep.cells)
    lines = []
    if forecast.cells:
        lines.append(lang.html("sweep_plan_time", time=sentences.rounded_duration(forecast.seconds)))
    if wanted and hub.reachable():
        size = fmt.size(sum(entry.parameters for entry in wanted) * BYTES_A_PARAMETER)
        lines.append(lang.html("sweep_plan_downloads", count=len(wanted), size=size))
    elif wanted:
        lines.append(lang.html("sweep_plan_offline", count=len(wanted)))
    if rough := guess(forecast, lang):
        lines.append(f"<small>{rough}</small>")
    cells = lang.html("sweep_plan_cells", cells=len(sweep.cells), stored=stored, run=forecast.cells)
    return (
        f'<div class="forecast" role="status"><p><b>{cells}</b></p>{"".join(f"<p>{line}</p>" for line in lines)}</div>'
    )


def status(step: str, cells: Sequence[Cell], seconds: float | None, more: str, lang: Language) -> str:
    """`step` is the end of a text's key; `seconds` the time to go, if known; `more` HTML."""
    done, of_all = sum(cell.done for cell in cells), len(cells)
    share = done / of_all if cells else 0.0
    counts: dict[str, object] = {"done": done, "of": of_all}
    if seconds and done < of_all:
        so_far = lang.html("sweep_cells_to_go", time=sentences.rounded_duration(seconds), **counts)
    else:
        so_far = lang.html("sweep_cells", **counts)
    return (
        f'<section class="sweep-status"><p class="kicker">{lang.html(f"sweep_{step}")}</p>'
        f'<p class="so-far">{so_far}</p>'
        f'<div class="progress" role="progressbar" aria-label="{esc(lang.plain("sweep_progress"))}" aria-valuemin="0" '
        f'aria-valuemax="{of_all}" aria-valuenow="{done}"><i style="width:{share * 100:.1f}%"></i></div>'
        f'<p class="doing">{more}&nbsp;</p></section>'
    )


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
