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
from demo.store.shared_rows import Setting, SharedRow
from demo.ui.html import shared_html as html
from demo.ui.jobs.queue import RunQueue
from demo.ui.tabs import links
from demo.ui.tabs.event_options import AT_ONCE
from demo.ui.web.visitor_language import label, request_language

ALL = ""
"""The value of a filter that lets everything through, and of the settings that most rows have."""
FIRST = dict.fromkeys(("setting", "task", "device", "torch", "model"), ALL)
LISTS = 4
"""Filters that are lists; the fifth is a text."""
MAX_CHOICES = 100
"""Entries of a list. The most frequent ones stay."""
_TASK_NAMES = {
    "image-classification": "task_classification",
    "object-detection": "task_detection",
    "image-segmentation": "task_segmentation",
    "text-generation": "task_text_generation",
}


class SharedTab:
    """The components and the handler between them. Make it inside the `gr.Tab` that holds it."""

    def __init__(self, copy: SharedCopy, queue: RunQueue, tab: gr.Tab) -> None:
        """The copy is renewed when the tab is opened. A fetch does not begin while `queue` has a run."""
        self._copy, self._queue = copy, queue
        with gr.Column(elem_id="shared"):
            self.status = gr.HTML(elem_id="shared-status", apply_default_css=False, js_on_load=html.FOLLOW)
            with gr.Row(elem_id="shared-filters", equal_height=False):
                names = (
                    ("setting", "shared_setting"),
                    ("task", "task"),
                    ("device", "device"),
                    ("torch", "compared_torch"),
                )
                self.filters: dict[str, gr.components.Component] = {
                    column: gr.Dropdown([("", ALL)], value=ALL, label=label(name), min_width=120)
                    for column, name in names
                }
                self.filters["model"] = gr.Textbox(
                    label=label("published_search"),
                    placeholder="ViT, resnet-50 …",
                    max_length=links.MAX_SEARCH,
                    min_width=120,
                )
            self.map = gr.HTML(elem_id="shared-map", apply_default_css=False)
            self.table = gr.HTML(elem_id="shared-table", apply_default_css=False)
        self.chosen = gr.Textbox("", visible=False)  # as a query
        inputs = list(self.filters.values())
        outputs = [self.chosen, self.status, *inputs, self.map, self.table]
        changed = gr.on(
            # a text field: `change`, see gradio_workarounds
            [tab.select, *(part.input for part in inputs[:-1]), inputs[-1].change],  # type: ignore[attr-defined]
            self._show,
            [self.chosen, *inputs],
            outputs,
            js=links.with_choices("shared"),
            trigger_mode="always_last",
            **AT_ONCE,
        )
        # what is chosen, and not what the lists show: without rows they are empty
        followed = self.status.tick(self._follow, [self.chosen, inputs[-1]], outputs, **AT_ONCE)
        for event in (changed, followed):
            event.then(None, self.chosen, js=links.chosen("shared"), api_visibility="private")

    def _show(
        self, query: str, setting: str, task: str, device: str, torch: str, model: str, request: gr.Request
    ) -> list[Any]:
        """What is chosen, as a query, and updates for the status, the five filters, the map and the table.

        A `query` of the address goes before what the filters hold.
        """
        asked = links.chosen_or_linked("shared", query, (setting, task, device, torch, model), FIRST)
        written = asked["model"] if query else gr.skip()
        shared = self._copy.look(len(self._queue) > 0)
        updates = shown(shared, **asked, lang=request_language(request))
        lists = updates[1 : 1 + LISTS]
        if not shared.fetching:  # else the rows that are asked for may still arrive
            asked |= {name: update["value"] for name, update in zip(FIRST, lists, strict=False)}
            if asked["setting"] == lists[0]["choices"][0][1]:
                asked["setting"] = ALL
        asked["model"] = asked["model"].strip()
        return [links.query_of_choices("shared", asked, FIRST), *updates[: 1 + LISTS], written, *updates[1 + LISTS :]]

    def _follow(self, chosen: str, model: str, request: gr.Request) -> list[Any]:
        """The same when the rows have arrived; else no change."""
        if self._copy.look(len(self._queue) > 0).fetching:
            return [gr.skip()] * 9
        asked = links.choices("shared", chosen, FIRST) | {"model": model}
        return self._show("", **asked, request=request)


def shown(shared: Shared, setting: str, task: str, device: str, torch: str, model: str, lang: Language) -> list[Any]:
    """As `SharedTab._show`. A choice that the rows do not have becomes "all"; of the settings, the most frequent."""
    rows = shared.rows
    every = (lang.plain("choice_all"), ALL)
    tasks = _frequent(row.spec.task for row in rows)
    devices = _frequent(row.device_name for row in rows)
    versions = sorted(_frequent(row.torch for row in rows), reverse=True)
    lists = {
        "task": [every, *((lang.plain(_TASK_NAMES[name]), name) for name in tasks)],
        "device": [every, *((name, name) for name in devices)],
        "torch": [every, *((name, name) for name in versions)],
    }
    asked = {"task": task, "device": device, "torch": torch}
    chosen = {name: asked[name] if asked[name] in [value for _, value in lists[name]] else ALL for name in lists}
    fitting = [
        row
        for row in rows
        if chosen["task"] in (ALL, row.spec.task)
        and chosen["device"] in (ALL, row.device_name)
        and chosen["torch"] in (ALL, row.torch)
        and model.strip().lower() in row.spec.checkpoint.lower()
    ]
    groups = _groups(fitting)
    place = setting if setting in groups else next(iter(groups), ALL)
    settings = [(_group_name(group, lang), key) for key, group in groups.items()] or [("–", ALL)]
    updates = [gr.update(choices=settings, value=place)]
    updates += [gr.update(choices=lists[name], value=value) for name, value in chosen.items()]
    status = html.status(shared, lang)
    if not groups:
        empty = "" if shared.fetching else f'<p class="scope">{lang.html(_nothing(shared))}</p>'
        return [status, *updates, empty, ""]
    return [status, *updates, html.heatmap(groups[place], lang), html.table(groups[place], lang)]


def _nothing(shared: Shared) -> str:
    return "published_no_row" if shared.rows else "shared_none"


def _frequent(values: Iterable[str]) -> list[str]:
    return [value for value, _ in Counter(values).most_common(MAX_CHOICES)]


def _groups(rows: Sequence[SharedRow]) -> dict[str, list[SharedRow]]:
    """Rows of equal versions and settings, those with most rows first, by a key for the list."""
    groups: dict[Setting, list[SharedRow]] = {}
    for row in rows:
        groups.setdefault(row.setting, []).append(row)
    largest = sorted(groups.items(), key=lambda pair: -len(pair[1]))[:MAX_CHOICES]
    return {hashlib.sha256(repr(setting).encode()).hexdigest()[:12]: group for setting, group in largest}


def _group_name(rows: Sequence[SharedRow], lang: Language) -> str:
    return " · ".join([*html.setting_words(rows[0], lang), sentences.count(len(rows), "row", lang)])
