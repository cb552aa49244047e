"""The shared rows as HTML: of when the copy is, the map of models and devices, the table of rows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from demo.core import catalog
from demo.core import format as fmt
from demo.core.hub import endpoint
from demo.core.languages import Language
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.store.reruns import compiled_spec
from demo.store.shared_copy import Shared
from demo.store.shared_rows import SharedRow
from demo.ui.html import actions, row_table
from demo.ui.html.elements import esc
from demo.ui.html.heatmap import figure, heat, heat_table, legend
from demo.ui.html.row_table import between

MAX_MODELS, MAX_DEVICES = 40, 8
MAX_LINES = 100
"""Rows of the table that are drawn."""
MAX_ASKED = 40
"""Characters of a prompt or of queries beside a model."""

FOLLOW = """setInterval(() => {
  if (element.offsetParent && !document.hidden && element.querySelector('[data-fetching]')) trigger('tick');
}, 1500);"""
"""While the rows are fetched, a page that shows them asks for them again."""


def status(shared: Shared, lang: Language) -> str:
    """Whose rows these are, of when, why not of now, and what of them is left out."""
    where = f"{esc(endpoint())}/datasets/{esc(shared.dataset)}"
    link = f'<a href="{where}" target="_blank" rel="noopener"{lang.ltr}>{esc(shared.dataset)}</a>'
    said = []
    if shared.fetched_at:
        when = f"{shared.fetched_at[:16].replace('T', ' ')} UTC"
        said.append(lang.composed("shared_read", dataset=link, when=f"<time>{lang.value(when)}</time>"))
    else:
        said.append(lang.composed("shared_unread", dataset=link))
    if shared.problem is not None:
        said.append(lang.html(f"shared_{shared.problem}"))
    elif shared.fetching:
        said.append(lang.html("shared_fetching"))
    if shared.unreadable:
        counts = {"count": shared.unreadable, "all": shared.looked_at}
        said.append(lang.html("shared_bad_rows", **{name: sentences.grouped(count) for name, count in counts.items()}))
    if shared.unreadable_files:
        said.append(lang.html("shared_bad_files", count=shared.unreadable_files, all=shared.files))
    if shared.cut:
        said.append(lang.html("shared_cut", count=sentences.grouped(len(shared.rows))))
    fetching = " data-fetching" if shared.fetching else ""
    return f'<p class="scope" role="status"{fetching}>{" ".join(said)}</p>'


def setting_words(row: SharedRow, lang: Language) -> list[str]:
    """Versions and settings of a row, as `SharedRow.setting` compares them."""
    kept: dict[str, Any] = {"protocol": row.spec.protocol, "threads": None, "text": ()}
    asked = sentences.settings_apart(dataclasses.replace(compiled_spec(row.spec), **kept), lang)
    versions = [f"torch {row.torch}", f"transformers {row.transformers}"]
    return [*map(lang.plain_value, versions), *asked]


def heatmap(rows: Sequence[SharedRow], lang: Language) -> str:
    """The newest row of each model on each device; all `rows` have one setting and are newest first."""
    cells: dict[tuple[Any, Any], list[SharedRow]] = {}
    for row in rows:
        cells.setdefault((row.model, row.device), []).append(row)
    every_model, every_device = Counter(row.model for row in rows), Counter(row.device for row in rows)
    models = [model for model, _ in every_model.most_common(MAX_MODELS)]
    devices = [device for device, _ in every_device.most_common(MAX_DEVICES)]
    specs = {row.model: row.spec for row in rows}
    lines = (
        (specs[model].checkpoint, _model(specs[model], lang), [_cell(cells.get((model, one)), lang) for one in devices])
        for model in models
    )
    drawn = heat_table(lang.html("column_model"), [_device(device, lang) for device in devices], lines)
    less = ""
    if len(models) < len(every_model) or len(devices) < len(every_device):
        less = f'<p class="scope">{lang.html("shared_map_cut", models=len(models), devices=len(devices))}</p>'
    return (
        f'<section class="shared-map"><h3>{lang.html("shared_map")}</h3>'
        f'<p class="scope">{lang.marked(lang.listed(setting_words(rows[0], lang)))}</p>'
        f'<div class="scroller" tabindex="0" role="region" aria-label="{esc(lang.plain("shared_map"))}">'
        f"{drawn}</div>{less}{legend('shared_newest', lang)}</section>"
    )


def _device(device: tuple[str, int | None], lang: Language) -> str:
    name, threads = device
    below = f"<small>{lang.marked(sentences.count(threads, 'thread', lang))}</small>" if threads is not None else ""
    return lang.value(name) + below


def _model(spec: RunSpec, lang: Language, owner: str = "") -> str:
    """The name of a model with its owner, and what it is asked for besides a picture, shortened."""
    name = lang.value(sentences.short(spec.checkpoint)) + (f"<small>{lang.value(owner)}</small>" if owner else "")
    asked = spec.prompt or ", ".join(spec.text)
    if not asked:
        return name
    asked = asked if len(asked) <= MAX_ASKED else f"{asked[: MAX_ASKED - 1]}…"
    tokens = f" · {lang.marked(sentences.count(spec.tokens, 'token', lang))}" if spec.prompt else ""
    return f"{name}<small><bdi>{esc(asked)}</bdi>{tokens}</small>"


def _cell(rows: Sequence[SharedRow] | None, lang: Language) -> str:
    if not rows:
        return '<td class="cell"></td>'
    kind, strength, _ = heat(rows[0].verdict, rows[0].speedup)
    several = f"<small>{lang.html('shared_of_several', count=len(rows))}</small>" if len(rows) > 1 else ""
    speedup = f"<b>{_figure(rows[0], lang)}</b>{between(rows[0].speedup_low, rows[0].speedup_high, lang)}"
    return f'<td class="cell {kind}" style="--strength:{strength:.0f}%">{speedup}{several}</td>'


def _figure(row: SharedRow, lang: Language) -> str:
    """'▲ 1.45×', 'no difference', 'Out of memory'."""
    ratio = "" if row.speedup is None else heat(row.verdict, row.speedup)[2] + fmt.ratio(row.speedup)
    return figure(row.status, row.verdict, ratio, lang)


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


def table(rows: Sequence[SharedRow], lang: Language) -> str:
    """The newest `MAX_LINES` of the rows."""
    count = sentences.count(len(rows), "row", lang)
    drawn = lang.html("shared_newest_rows", count=MAX_LINES) if len(rows) > MAX_LINES else ""
    lines = (_line(row, lang) for row in rows[:MAX_LINES])
    return (
        f'<section class="explorer"><div class="above"><h3>{lang.marked(count)}</h3><p>{drawn}</p></div>'
        f"{row_table.table(_COLUMNS, lines, count, lang)}</section>"
    )


def _line(row: SharedRow, lang: Language) -> tuple[str, ...]:
    """The last cell is a link that fills the form with the settings of this row; '' if this page cannot run that.

    A row of a GPU asks for the device 'auto': here may be another device, as "here" says.
    """
    spec = row.spec.on("cpu" if row.spec.device == "cpu" else "auto")
    return (
        _model(row.spec, lang, row.spec.checkpoint if "/" in row.spec.checkpoint else ""),
        _device(row.device, lang),
        *("–" if value is None else lang.value(f"{value:.3f}") for value in (row.eager_ms, row.compiled_ms)),
        _figure(row, lang) + between(row.speedup_low, row.speedup_high, lang),
        lang.marked(lang.listed(setting_words(row, lang))),
        lang.value(row.started_at[:16].replace("T", " ")),
        actions.fill(lang.html("repeat_this_here"), **catalog.arguments(spec)),
    )
