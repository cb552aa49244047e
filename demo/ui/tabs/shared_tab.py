"""The tab of shared results: filters, a map of models and devices, the rows of one setting."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from demo.core.languages import Language
from demo.present import sentences
from demo.store.shared_copy import Shared, SharedCopy
from demo.store.shared_rows import SharedRow
from demo.ui.html import shared_html as html
from demo.ui.jobs import RunQueue
from demo.ui.look import source
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE
from demo.ui.tabs.form import TASK_NAMES
from demo.ui.tabs.row_filters import ALL, Choices, RowFilters, fitted

LISTS = {"setting": "shared_setting", "task": "task", "device": "device", "torch": "compared_torch"}
FIRST = dict.fromkeys((*LISTS, "model"), ALL)
"""`ALL` is also the value of the settings that most rows have."""
MAX_CHOICES = 100
"""Entries of a list. The most frequent ones stay."""


class SharedTab:
    """Make it inside the `gr.Tab` that holds it."""

    def __init__(self, copy: SharedCopy, queue: RunQueue, tab: gr.Tab) -> None:
        """The copy is renewed when the tab is opened. A fetch does not begin while `queue` has a run."""
        self._copy, self._queue = copy, queue
        with gr.Column(elem_id="shared"):
            status = gr.HTML(elem_id="shared-status", apply_default_css=False, js_on_load=source("shared.js"))
            self._filters = filters = RowFilters("shared", LISTS, FIRST, self._show)
            outputs = [status, *(gr.HTML(elem_id=f"shared-{one}", apply_default_css=False) for one in ("map", "table"))]
        updated = filters.wire(tab, outputs)
        filters.remember(status.tick(self._follow, [filters.chosen, filters.model], updated, **AT_ONCE))

    def _look(self) -> Shared:
        return self._copy.look(len(self._queue) > 0)

    def _show(self, asked: dict[str, str], lang: Language) -> tuple[Choices, dict[str, str], list[str]]:
        shared = self._look()
        choices, chosen, outputs = shown(shared, asked, lang)
        # the rows that are asked for may still arrive
        return ({}, asked, outputs) if shared.fetching else (choices, chosen, outputs)

    def _follow(self, chosen: str, typed: str, request: gr.Request) -> list[Any]:
        """Shows the rows when they have arrived; else no change. The search stays, except that a link's is written."""
        if self._look().fetching:
            return [gr.skip()] * 9
        asked = links.read_query(chosen) | ({"shared_model": typed} if typed else {})
        updates = self._filters.update(request, f"?{urlencode(asked)}")
        model = 1 + len(LISTS)
        if typed or not updates[model]:
            updates[model] = gr.skip()
        return updates


def shown(shared: Shared, asked: dict[str, str], lang: Language) -> tuple[Choices, dict[str, str], list[str]]:
    """The status, the map and the table, with the lists above them.

    A choice that the rows do not have becomes "all"; of the settings, the most frequent.
    """
    rows = shared.rows
    names = {name: lang.plain(text) for name, text in TASK_NAMES.items()}
    values = {
        "task": _frequent(row.spec.task for row in rows),
        "device": _frequent(row.device_name for row in rows),
        "torch": sorted(_frequent(row.torch for row in rows), reverse=True),
    }
    every = (lang.plain("choice_all"), ALL)
    choices = {name: [every, *((names.get(one, one), one) for one in found)] for name, found in values.items()}
    chosen = fitted(choices, asked)
    groups = _groups(
        row
        for row in rows
        if chosen["task"] in (ALL, row.spec.task)
        and chosen["device"] in (ALL, row.device_name)
        and chosen["torch"] in (ALL, row.torch)
        and asked["model"].strip().lower() in row.spec.checkpoint.lower()
    )
    most = next(iter(groups), ALL)
    place = asked["setting"] if asked["setting"] in groups else most
    choices["setting"] = [(_group_name(group, lang), key) for key, group in groups.items()] or [("–", ALL)]
    chosen["setting"] = ALL if place == most else place
    status = html.status(shared, lang)
    if groups:
        return choices, chosen, [status, html.heatmap(groups[place], lang), html.table(groups[place], lang)]
    nothing = lang.html("published_no_row" if rows else "shared_none")
    return choices, chosen, [status, "" if shared.fetching else f'<p class="scope">{nothing}</p>', ""]


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
