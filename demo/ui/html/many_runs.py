"""Many runs as HTML: a sweep and its heat map, the map and the table of the shared rows.

The heat map of a sweep has checkpoints down, batch sizes across, and a facet for each mode and number format. It is
plain HTML, because it fills while the sweep runs, and each cell is a button that opens its run. A cell has the colour
of the faster variant: blue for compiled, orange for eager.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from demo.core import catalog, format as fmt, hub
from demo.core.languages import ENGLISH, Language
from demo.present import sentences
from demo.store.reruns import compiled_spec
from demo.store.shared_rows import Shared, SharedRow
from demo.sweep.grid import Cell, downloads
from demo.ui.html.elements import drawn, fill
from demo.ui.jobs import Sweep

BYTES_A_PARAMETER = 4
"""The published weights are float32."""
FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""


def heatmap(cells: Sequence[Cell], lang: Language, running: int | None = None, share: float = 0.0) -> Markup:
    """`running` is the place of the running cell, `share` its progress from 0 to 1."""
    shown = {}
    for place, cell in enumerate(cells):
        spec = cell.spec
        known = _cell(cell, lang) if cell.done else {"running": place == running}
        shown[spec.mode, spec.dtype, spec.checkpoint, spec.batch_size] = {"place": place} | known
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})
    facets = []
    for facet in dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells):
        rows = []
        for checkpoint in checkpoints:
            row = [shown.get((*facet, checkpoint, batch)) for batch in batches]
            rows.append((checkpoint, Markup(lang.value(sentences.short(checkpoint))), row))
        facets.append((*facet, rows))
    return drawn("heatmap.sweep", lang, [Markup(lang.value(batch)) for batch in batches], facets, f"{share * 100:.0f}")


def _cell(cell: Cell, lang: Language) -> dict[str, object]:
    """What the template shows of a cell that is done."""
    spec, result = cell.spec, cell.result
    if result is None:
        known: dict[str, object] = {"kind": "failed", "strength": 0, "figure": lang.plain("heat_refused")}
    else:
        ratio = result.speedup.ratio if result.speedup is not None else None
        told = sentences.speedup(result, ENGLISH)
        known = shaded(result.status, sentences.outcome(result), ratio, told, lang)
        if result.status == "out_of_memory":
            known["figure"] = cell.value  # which is short
    times = sentences.times(result) if result is not None and result.failure is None else ""
    setting = [spec.checkpoint, lang.plain("asked_batch", size=spec.batch_size), spec.mode, spec.dtype, cell.value]
    return known | {
        "times": times.replace(" ms", "\N{NO-BREAK SPACE}ms").split(" → "),
        "title": cell.value,
        "label": lang.listed(setting),
    }


def shaded(status: str, verdict: str | None, ratio: float | None, shown: str, lang: Language) -> dict[str, object]:
    """The class of a cell's colour, its strength in per cent, and its figure: '▲ 1.45×', where '1.45×' is `shown`,
    'no difference' or 'Did not compile'."""
    if status != "ok":
        return {"kind": "failed", "strength": 0, "figure": lang.plain(f"status_{status}")}
    if ratio is None or verdict not in ("faster", "slower"):
        open_figure = lang.plain("answer_same" if verdict == "same" else "heat_unsure")
        return {"kind": "same", "strength": 0, "figure": open_figure if verdict is not None else "–"}
    full = min(1.0, abs(math.log(ratio)) / math.log(FULL_COLOUR_AT))
    kind, sign = ("fast", "▲") if verdict == "faster" else ("slow", "▼")
    return {"kind": kind, "strength": round(18 + 72 * full), "figure": lang.plain_value(f"{sign} {shown}")}


def plan(sweep: Sweep, lang: Language) -> Markup:
    """What Start would do: cells, time, and the checkpoints that it would download, or cannot."""
    wanted, size = downloads(sweep.cells), ""
    if wanted and hub.reachable():
        size = fmt.size(sum(entry.parameters for entry in wanted) * BYTES_A_PARAMETER)
    stored = sum(cell.done for cell in sweep.cells)
    return drawn("sweep_status.plan", lang, sweep.forecast(), len(sweep.cells), stored, len(wanted), size)


def status(step: str, cells: Sequence[Cell], seconds: float | None, more: str, lang: Language) -> Markup:
    """`step` is the end of a text's key; `seconds` the time to go, if known; `more` HTML."""
    done = sum(cell.done for cell in cells)
    return drawn("sweep_status.status", lang, step, done, len(cells), seconds, Markup(more))


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


# The shared rows

MAX_MODELS, MAX_DEVICES = 40, 8
MAX_LINES = 100
"""Rows of the table that are drawn."""


def shared_status(shared: Shared, lang: Language) -> Markup:
    """Whose rows these are, of when, why not of now, and what of them is left out."""
    address = f"{hub.endpoint()}/datasets/{shared.dataset}"
    return drawn("shared.status", lang, shared, address)


def setting_words(row: SharedRow, lang: Language) -> list[str]:
    """Versions and settings of a row, as `SharedRow.setting` compares them."""
    kept: dict[str, Any] = {"protocol": row.spec.protocol, "threads": None, "text": ()}
    asked = sentences.settings_apart(dataclasses.replace(compiled_spec(row.spec), **kept), lang)
    versions = [f"torch {row.torch}", f"transformers {row.transformers}"]
    return [*map(lang.plain_value, versions), *asked]


def shared_map(rows: Sequence[SharedRow], lang: Language) -> Markup:
    """The newest row of each model on each device; all `rows` have one setting and are newest first."""
    cells: dict[tuple[Any, Any], list[SharedRow]] = {}
    for row in rows:
        cells.setdefault((row.model, row.device), []).append(row)
    every_model, every_device = Counter(row.model for row in rows), Counter(row.device for row in rows)
    models = [model for model, _ in every_model.most_common(MAX_MODELS)]
    devices = [device for device, _ in every_device.most_common(MAX_DEVICES)]
    specs, lines = {row.model: row.spec for row in rows}, []
    for model in models:
        found = [cells.get((model, device)) for device in devices]
        shown = [(_speedup(of[0], lang), len(of)) if of else None for of in found]
        lines.append((specs[model], shown))
    cut = len(models) < len(every_model) or len(devices) < len(every_device)
    return drawn("shared.map", lang, lang.listed(setting_words(rows[0], lang)), devices, lines, cut)


def _speedup(row: SharedRow, lang: Language) -> dict[str, object]:
    """Colour and figure of a row, and the ends of its interval."""
    ratio = "" if row.speedup is None else fmt.ratio(row.speedup)
    ends = sentences.ends(row.speedup_low, row.speedup_high) if row.speedup_low and row.speedup_high else None
    return shaded(row.status, row.verdict, row.speedup, ratio, lang) | {"ends": ends}


_SHARED_COLUMNS = (
    ("column_model", ""),
    ("row_machine", "device"),
    ("column_eager", "figure"),
    ("column_compiled", "figure"),
    ("row_speedup", "figure strong"),
    ("column_with", "how"),
    ("history_started", "when"),
    ("tab_run", "here"),
)


def shared_table(rows: Sequence[SharedRow], lang: Language) -> Markup:
    """The newest `MAX_LINES` of the rows."""
    lines = [_shared_line(row, lang) for row in rows[:MAX_LINES]]
    count = sentences.count(len(rows), "row", lang)
    return drawn("shared.table", lang, _SHARED_COLUMNS, lines, count, MAX_LINES if len(rows) > MAX_LINES else None)


def _shared_line(row: SharedRow, lang: Language) -> dict[str, object]:
    """The link "here" fills the form with the settings of this row, '' if this page cannot run that. A row of a GPU
    asks for the device 'auto': here may be another one."""
    spec = row.spec.on("cpu" if row.spec.device == "cpu" else "auto")
    return {
        "row": row,
        "column_eager": row.eager_ms,
        "column_compiled": row.compiled_ms,
        "settings": lang.listed(setting_words(row, lang)),
        "here": fill(lang.html("repeat_this_here"), **catalog.arguments(spec)),
    } | _speedup(row, lang)
