"""The shared rows as HTML: of when the copy is, the map of models and devices, the table of rows."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from demo.core import catalog, format as fmt
from demo.core.hub import endpoint
from demo.core.languages import Language
from demo.present import sentences
from demo.store.reruns import compiled_spec
from demo.store.shared_rows import Shared, SharedRow
from demo.ui.html import actions
from demo.ui.html.elements import drawn
from demo.ui.html.sweep_html import shaded

MAX_MODELS, MAX_DEVICES = 40, 8
MAX_LINES = 100
"""Rows of the table that are drawn."""


def status(shared: Shared, lang: Language) -> Markup:
    """Whose rows these are, of when, why not of now, and what of them is left out."""
    address = f"{endpoint()}/datasets/{shared.dataset}"
    return drawn("shared.status", lang, shared, address)


def setting_words(row: SharedRow, lang: Language) -> list[str]:
    """Versions and settings of a row, as `SharedRow.setting` compares them."""
    kept: dict[str, Any] = {"protocol": row.spec.protocol, "threads": None, "text": ()}
    asked = sentences.settings_apart(dataclasses.replace(compiled_spec(row.spec), **kept), lang)
    versions = [f"torch {row.torch}", f"transformers {row.transformers}"]
    return [*map(lang.plain_value, versions), *asked]


def heatmap(rows: Sequence[SharedRow], lang: Language) -> Markup:
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


_COLUMNS = (
    ("column_model", ""),
    ("row_machine", "device"),
    ("column_eager", "figure"),
    ("column_compiled", "figure"),
    ("row_speedup", "figure strong"),
    ("column_with", "how"),
    ("history_started", "when"),
    ("tab_run", "here"),
)


def table(rows: Sequence[SharedRow], lang: Language) -> Markup:
    """The newest `MAX_LINES` of the rows."""
    lines = [_line(row, lang) for row in rows[:MAX_LINES]]
    count = sentences.count(len(rows), "row", lang)
    return drawn("shared.table", lang, _COLUMNS, lines, count, MAX_LINES if len(rows) > MAX_LINES else None)


def _line(row: SharedRow, lang: Language) -> dict[str, object]:
    """The link fills the form with the settings of this row; it is '' if this page cannot run that.

    A row of a GPU asks for the device 'auto': here may be another device, as "here" says.
    """
    spec = row.spec.on("cpu" if row.spec.device == "cpu" else "auto")
    return {
        "row": row,
        "column_eager": row.eager_ms,
        "column_compiled": row.compiled_ms,
        "settings": lang.listed(setting_words(row, lang)),
        "here": actions.fill(lang.html("repeat_this_here"), **catalog.arguments(spec)),
    } | _speedup(row, lang)
