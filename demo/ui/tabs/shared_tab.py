"""The tab of shared results: filters, a map of models and devices, the rows of one setting."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import gradio as gr

from demo.core.languages import Language
from demo.present import sentences
from demo.store.shared_copy import Shared, SharedCopy
from demo.store.shared_rows import SharedRow
from demo.ui.html import shared_html as html
from demo.ui.jobs.queue import RunQueue
from demo.ui.look import source
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE
from demo.ui.tabs.row_filters import ALL, TASK_NAMES, RowFilters, fitted
from demo.ui.web.visitor_language import request_language

LISTS = {"setting": "shared_setting", "task": "task", "device": "device", "torch": "compared_torch"}
FIRST = dict.fromkeys((*LISTS, "model"), ALL)
"""`ALL` is also the value of the settings that most rows have."""
MAX_CHOICES = 100
"""Entries of a list. The most frequent ones stay."""


class SharedTab:
    """The components and the handler between them. Make it inside the `gr.Tab` that holds it."""

    def __init__(self, copy: SharedCopy, queue: RunQueue, tab: gr.Tab) -> None:
        """The copy is renewed when the tab is opened. A fetch does not begin while `queue` has a run."""
        self._copy, self._queue = copy, queue
        with gr.Column(elem_id="shared"):
            status = gr.HTML(elem_id="shared-status", apply_default_css=False, js_on_load=source("shared.js"))
            self._filters = filters = RowFilters("shared", LISTS, FIRST)
            outputs = [status, *(gr.HTML(elem_id=f"shared-{one}", apply_default_css=False) for one in ("map", "table"))]
        filters.wire(tab, self._show, outputs)
        # what is chosen, and not what the lists show: without rows they are empty
        updated = [filters.chosen, *filters.lists, filters.model, *outputs]
        filters.remember(status.tick(self._follow, [filters.chosen, filters.model], updated, **AT_ONCE))

    def _show(
        self, query: str, setting: str, task: str, device: str, torch: str, model: str, request: gr.Request
    ) -> list[Any]:
        asked = self._filters.asked(query, (setting, task, device, torch, model))
        shared = self._copy.look(len(self._queue) > 0)
        lists, outputs = shown(shared, **asked, lang=request_language(request))
        chosen = asked
        if not shared.fetching:  # else the rows that are asked for may still arrive
            chosen = asked | {name: update["value"] for name, update in zip(LISTS, lists, strict=True)}
            if chosen["setting"] == lists[0]["choices"][0][1]:
                chosen["setting"] = ALL
        return self._filters.updates(query, chosen, lists, outputs)

    def _follow(self, chosen: str, model: str, request: gr.Request) -> list[Any]:
        """Shows the rows when they have arrived; else no change."""
        if self._copy.look(len(self._queue) > 0).fetching:
            return [gr.skip()] * 9
        return self._show("", **links.choices("shared", chosen, FIRST) | {"model": model}, request=request)


def shown(
    shared: Shared, setting: str, task: str, device: str, torch: str, model: str, lang: Language
) -> tuple[list[Any], list[str]]:
    """Updates for the four lists; the status, the map and the table.

    A choice that the rows do not have becomes "all"; of the settings, the most frequent. Before any row has arrived the
    choices stay, since the filters are read again when a visitor changes one of them.
    """
    rows = shared.rows
    names = {name: lang.plain(text) for name, text in TASK_NAMES.items()}
    values = {
        "task": _frequent(row.spec.task for row in rows),
        "device": _frequent(row.device_name for row in rows),
        "torch": sorted(_frequent(row.torch for row in rows), reverse=True),
    }
    asked, awaited = {"task": task, "device": device, "torch": torch}, shared.fetching and not rows
    if awaited:
        values = {name: [one] if one != ALL else [] for name, one in asked.items()}
    every = (lang.plain("choice_all"), ALL)
    choices = {name: [every, *((names.get(one, one), one) for one in found)] for name, found in values.items()}
    lists, chosen = fitted(choices, asked)
    groups = _groups(
        row
        for row in rows
        if chosen["task"] in (ALL, row.spec.task)
        and chosen["device"] in (ALL, row.device_name)
        and chosen["torch"] in (ALL, row.torch)
        and model.strip().lower() in row.spec.checkpoint.lower()
    )
    place = setting if setting in groups or awaited else next(iter(groups), ALL)
    settings = [(_group_name(group, lang), key) for key, group in groups.items()] or [("–", place)]
    lists.insert(0, gr.update(choices=settings, value=place))
    status = html.status(shared, lang)
    if groups:
        return lists, [status, html.heatmap(groups[place], lang), html.table(groups[place], lang)]
    nothing = lang.html("published_no_row" if rows else "shared_none")
    return lists, [status, "" if shared.fetching else f'<p class="scope">{nothing}</p>', ""]


def _frequent(values: Iterable[str]) -> list[str]:
    return [value for value, _ in Counter(values).most_common(MAX_CHOICES)]


def _groups(rows: Iterable[SharedRow]) -> dict[str, list[SharedRow]]:
    """Rows of equal versions and settings, those with most rows first, by a key for the list."""
    groups: dict[tuple[Any, ...], list[SharedRow]] = {}
    for row in rows:
        groups.setdefault(row.setting, []).append(row)
    largest = sorted(groups.items(), key=lambda pair: -len(pair[1]))[:MAX_CHOICES]
    return {hashlib.sha256(repr(setting).encode()).hexdigest()[:12]: group for setting, group in largest}


def _group_name(rows: Sequence[SharedRow], lang: Language) -> str:
    return " · ".join([*html.setting_words(rows[0], lang), sentences.count(len(rows), "row", lang)])
