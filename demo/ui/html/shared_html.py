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
from demo.ui.html import actions
from demo.ui.html.elements import esc
from demo.ui.html.heatmap import heat, legend

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
    head = "".join(f'<th scope="col">{_device(device, lang)}</th>' for device in devices)
    lines = "".join(
        f'<tr><th scope="row" title="{esc(model[0])}">{_model(cells, model, lang)}</th>'
        + "".join(_cell(cells.get((model, device), []), lang) for device in devices)
        + "</tr>"
        for model in models
    )
    less = ""
    if len(models) < len(every_model) or len(devices) < len(every_device):
        less = f'<p class="scope">{lang.html("shared_map_cut", models=len(models), devices=len(devices))}</p>'
    name = esc(lang.plain("shared_map"))
    return (
        f'<section class="shared-map"><h3>{lang.html("shared_map")}</h3>'
        f'<p class="scope">{lang.marked(lang.listed(setting_words(rows[0], lang)))}</p>'
        f'<div class="scroller" tabindex="0" role="region" aria-label="{name}">'
        f'<table class="heat" style="--devices:{len(devices)}">'
        f'<thead><tr><th scope="col">{lang.html("column_model")}</th>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>{less}{legend('shared_newest', lang)}</section>"
    )


def _device(device: tuple[str, int | None], lang: Language) -> str:
    name, threads = device
    below = f"<small>{lang.marked(sentences.count(threads, 'thread', lang))}</small>" if threads is not None else ""
    return lang.value(name) + below


def _model(cells: dict[tuple[Any, Any], list[SharedRow]], model: Any, lang: Language) -> str:
    row = next(rows[0] for (of, _), rows in cells.items() if of == model)
    return lang.value(sentences.short(row.spec.checkpoint)) + _asked(row.spec, lang)


def _asked(spec: RunSpec, lang: Language) -> str:
    """What a model is asked for besides a picture, shortened."""
    asked = spec.prompt or ", ".join(spec.text)
    if not asked:
        return ""
    asked = asked if len(asked) <= MAX_ASKED else f"{asked[: MAX_ASKED - 1]}…"
    tokens = f" · {lang.marked(sentences.count(spec.tokens, 'token', lang))}" if spec.prompt else ""
    return f"<small><bdi>{esc(asked)}</bdi>{tokens}</small>"


def _cell(rows: Sequence[SharedRow], lang: Language) -> str:
    if not rows:
        return '<td class="cell"></td>'
    newest = rows[0]
    kind, strength, sign = "failed", 0.0, ""
    if newest.verdict is not None and newest.speedup is not None:
        kind, strength, sign = heat(newest.verdict, newest.speedup)
    lines = [f"<b>{_figure(newest, sign, lang)}</b>"]
    if newest.low is not None and newest.high is not None:
        lines.append(f"<small>{_between(newest.low, newest.high, lang)}</small>")
    if len(rows) > 1:
        lines.append(f"<small>{lang.html('shared_of_several', count=len(rows))}</small>")
    return f'<td class="cell {kind}" style="--strength:{strength:.0f}%">{"".join(lines)}</td>'


def _figure(row: SharedRow, sign: str, lang: Language) -> str:
    """'▲ 1.45×', 'no difference', 'Out of memory'."""
    if row.speedup is None:
        return lang.html(f"status_{row.status}")
    if row.verdict in ("faster", "slower"):
        return f"<span{lang.ltr}>{sign}{fmt.ratio(row.speedup)}</span>"
    return lang.html("answer_same" if row.verdict == "same" else "heat_unsure")


def _between(low: float, high: float, lang: Language) -> str:
    least, most = sentences.ends(low, high)
    return lang.html("between", low=least, high=most)


_COLUMNS = (
    ("column_model", ""),
    ("row_machine", ""),
    ("column_eager", "figure"),
    ("column_compiled", "figure"),
    ("row_speedup", "figure"),
    ("column_with", ""),
    ("history_started", ""),
    ("tab_run", "here"),
)


def table(rows: Sequence[SharedRow], lang: Language) -> str:
    """The newest `MAX_LINES` of the rows."""
    lines = "".join(_line(row, lang) for row in rows[:MAX_LINES])
    head = "".join(f'<th scope="col" class="{kind}">{lang.html(name)}</th>' for name, kind in _COLUMNS)
    count = sentences.count(len(rows), "row", lang)
    drawn = lang.html("shared_newest_rows", count=MAX_LINES) if len(rows) > MAX_LINES else ""
    region = esc(lang.composed("published_region", rows=count))
    return (
        f'<section class="explorer"><div class="above"><h3>{lang.marked(count)}</h3><p>{drawn}</p></div>'
        f'<div class="scroller" tabindex="0" role="region" aria-label="{region}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div></section>"
    )


def _line(row: SharedRow, lang: Language) -> str:
    sign = heat(row.verdict, row.speedup)[2] if row.verdict is not None and row.speedup is not None else ""
    speedup = _figure(row, sign, lang)
    if row.low is not None and row.high is not None:
        speedup += f"<small>{_between(row.low, row.high, lang)}</small>"
    cells = (
        ("device", _device(row.device, lang)),
        ("figure", lang.value(_ms(row.eager_ms))),
        ("figure", lang.value(_ms(row.compiled_ms))),
        ("figure strong", speedup),
        ("how", lang.marked(lang.listed(setting_words(row, lang)))),
        ("when", lang.value(row.started_at[:16].replace("T", " "))),
        ("here", _here(row, lang)),
    )
    names = (esc(lang.plain(name)) for name, _ in _COLUMNS[1:])  # a narrow window shows each beside its cell
    owner = row.spec.checkpoint if "/" in row.spec.checkpoint else ""
    name = lang.value(sentences.short(row.spec.checkpoint)) + (f"<small>{lang.value(owner)}</small>" if owner else "")
    return (
        f'<tr><th scope="row">{name}{_asked(row.spec, lang)}</th>'
        + "".join(
            f'<td class="{kind}" data-name="{name}">{cell}</td>'
            for name, (kind, cell) in zip(names, cells, strict=True)
        )
        + "</tr>"
    )


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _here(row: SharedRow, lang: Language) -> str:
    """A link that fills the form with the settings of this row; '' if this page cannot run that.

    A row of a GPU asks for the device 'auto': here may be another device, as "here" says.
    """
    spec = row.spec.on("cpu" if row.spec.device == "cpu" else "auto")
    return actions.fill(lang.html("repeat_this_here"), **catalog.arguments(spec))
