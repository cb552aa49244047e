"""Four lists and a search for a model above a table of rows; what they choose stands in the address."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import gradio as gr

from demo.core.languages import Language
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE
from demo.ui.web.visitor_language import label, request_language

ALL = ""
"""The value of a list that lets everything through."""
MAX_SEARCH = 80
"""Characters of a search for a model."""

Choices = dict[str, list[tuple[str, str]]]
"""The labels and values of each list, by column."""
Show = Callable[[dict[str, str], Language], tuple[Choices, Mapping[str, str], Sequence[Any]]]
"""For what is asked, by column: the choices of the lists, what of them is chosen, and updates for the outputs. Lists
without choices stay as they are."""


class RowFilters:
    """The filters of the tab `name`: `lists` are the column and the label of each list.

    `first` has the values that stand there at first, by column, the search as 'model' last.
    """

    def __init__(self, name: str, lists: Mapping[str, str], first: Mapping[str, str], show: Show) -> None:
        self._name, self._first, self._show = name, first, show
        with gr.Row(elem_id=f"{name}-filters", equal_height=False):
            self.lists = {
                column: gr.Dropdown([(first[column],) * 2], value=first[column], label=label(text), min_width=120)
                for column, text in lists.items()
            }
            self.model = gr.Textbox(
                label=label("published_search"), placeholder="ViT, resnet-50 …", max_length=MAX_SEARCH, min_width=120
            )
        self.chosen = gr.Textbox("", visible=False)
        """What is chosen, as a query."""

    def wire(self, tab: gr.Tab, outputs: Sequence[gr.components.Component]) -> list[gr.components.Component]:
        """Shows the outputs when the tab is opened or a filter changes. Gives the components that `update` changes."""
        filters = [*self.lists.values(), self.model]
        updated = [self.chosen, *filters, *outputs]
        event = gr.on(
            # a text field: `change`, see gradio_workarounds
            [tab.select, *(one.input for one in self.lists.values()), self.model.change],
            self.update,
            [self.chosen, *filters],
            updated,
            js=links.with_choices(self._name),
            trigger_mode="always_last",
            **AT_ONCE,
        )
        self.remember(event)
        return updated

    def remember(self, event: Any) -> None:
        """Puts what is chosen into the address after this event."""
        event.then(None, self.chosen, js=links.chosen(self._name), api_visibility="private")

    def update(self, request: gr.Request, query: str, *held: str) -> list[Any]:
        """Shows what the `query` of the address chooses, or without one what the filters hold.

        A search that somebody may be typing stays.
        """
        if query:
            given = links.read_query(query)
            asked = {name: given.get(f"{self._name}_{name}", value) for name, value in self._first.items()}
        else:
            asked = dict(zip(self._first, held, strict=True))
        asked["model"] = asked["model"][:MAX_SEARCH]
        choices, chosen, outputs = self._show(asked, request_language(request))
        lists = [
            gr.update(choices=choices[name], value=chosen[name] or choices[name][0][1]) if choices else gr.skip()
            for name in self.lists
        ]
        model = asked["model"] if query and choices else gr.skip()
        now = {**asked, **chosen, "model": asked["model"].strip()}
        in_address = {f"{self._name}_{name}": value for name, value in now.items() if value != self._first[name]}
        return [urlencode(in_address), *lists, model, *outputs]


def fitted(choices: Choices, asked: Mapping[str, str]) -> dict[str, str]:
    """What is chosen of these lists: `ALL` where one lacks what is asked."""
    return {
        name: asked[name] if asked[name] in [value for _, value in listed] else ALL for name, listed in choices.items()
    }
