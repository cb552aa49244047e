"""Four lists and a search for a model above a table of rows; what they choose stands in the address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gradio as gr

from demo.core.spec import TEXT_GENERATION
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE
from demo.ui.web.visitor_language import label

TASK_NAMES = {
    "image-classification": "task_classification",
    "object-detection": "task_detection",
    "image-segmentation": "task_segmentation",
    TEXT_GENERATION: "task_text_generation",
}
"""The text of each task in a list."""
ALL = ""
"""The value of a list that lets everything through."""


class RowFilters:
    """The filters of the tab `name`: `lists` are the column and the label of each list.

    `first` has the values that stand there at first, by column, the search as 'model' last.
    """

    def __init__(self, name: str, lists: Mapping[str, str], first: Mapping[str, str]) -> None:
        self._name, self._first = name, first
        with gr.Row(elem_id=f"{name}-filters", equal_height=False):
            self.lists = [
                gr.Dropdown([(first[column],) * 2], value=first[column], label=label(text), min_width=120)
                for column, text in lists.items()
            ]
            self.model = gr.Textbox(
                label=label("published_search"),
                placeholder="ViT, resnet-50 …",
                max_length=links.MAX_SEARCH,
                min_width=120,
            )
        self.chosen = gr.Textbox("", visible=False)
        """What is chosen, as a query."""

    def wire(self, tab: gr.Tab, show: Any, outputs: Sequence[gr.components.Component]) -> None:
        """`show` takes a query and the values of the filters, and answers with `updates` for them and the outputs."""
        event = gr.on(
            # a text field: `change`, see gradio_workarounds
            [tab.select, *(one.input for one in self.lists), self.model.change],
            show,
            [self.chosen, *self.lists, self.model],
            [self.chosen, *self.lists, self.model, *outputs],
            js=links.with_choices(self._name),
            trigger_mode="always_last",
            **AT_ONCE,
        )
        self.remember(event)

    def remember(self, event: Any) -> None:
        """Puts what is chosen into the address after this event."""
        event.then(None, self.chosen, js=links.chosen(self._name), api_visibility="private")

    def asked(self, query: str, fields: Iterable[str | None]) -> dict[str, str]:
        """What is to be shown, by column. A `query` of the address goes before what the filters hold."""
        return links.chosen_or_linked(self._name, query, fields, self._first)

    def updates(self, query: str, chosen: Mapping[str, str], lists: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Updates for what is chosen, the filters and the outputs. A search that somebody may be typing stays."""
        stripped = {**chosen, "model": chosen["model"].strip()}
        written = chosen["model"] if query else gr.skip()
        return [links.query_of_choices(self._name, stripped, self._first), *lists, written, *outputs]


def fitted(
    choices: Mapping[str, Sequence[tuple[str, str]]], asked: Mapping[str, str]
) -> tuple[list[Any], dict[str, str]]:
    """Updates for lists of these labels and values, and what is chosen: `ALL` where a list lacks what is asked."""
    allowed = {name: [value for _, value in options] for name, options in choices.items()}
    chosen = {name: asked[name] if asked[name] in values else ALL for name, values in allowed.items()}
    return [gr.update(choices=choices[name], value=value) for name, value in chosen.items()], chosen
