"""Links followed inside the page: buttons under an answer, rows of the tables, and the browser's Back button."""

from __future__ import annotations

from typing import Any

import gradio as gr

from demo.ui.look import source
from demo.ui.tabs import links
from demo.ui.tabs.run_tab import RunTab
from demo.ui.web.visitor_language import request_language

WAYS = ("fill", "run", "best", "back")
"""What a link that is followed inside the page may ask for: see `address.js`."""


class Following:
    """The component that hears of a followed link. Make it inside the `gr.Blocks`, once."""

    def __init__(self, run_tab: RunTab) -> None:
        self._run_tab = run_tab
        requests = gr.HTML("", elem_id="requests", apply_default_css=False, js_on_load=source("requests.js"))
        self.way = gr.Textbox("", visible=False)
        """What the browser does when the form is filled: one of `WAYS`, or ''."""
        inputs = run_tab.form.inputs
        requests.select(
            self._follow,
            [run_tab.visitor, inputs["checkpoint"], inputs["task"]],
            [*run_tab.showing, self.way],
            trigger_mode="multiple",  # address.js sends one at a time; "always_last" would lose the event's data
            show_progress="hidden",
            api_visibility="private",
            concurrency_limit=None,
        ).then(None, [run_tab.opened, self.way], js=links.FOLLOWED, api_visibility="private")

    def _follow(
        self, event: gr.EventData, request: gr.Request, visitor: str | None, checkpoint: str | None, task: str
    ) -> dict[Any, Any]:
        data = event._data if isinstance(event._data, dict) else {}
        way, tab, lang = data.get("way"), self._run_tab, request_language(request)
        query = links.read_query(str(data.get("query") or ""))
        if way not in WAYS or tab.is_running(request, visitor):
            return {self.way: ""}  # a run that goes on stays shown, and its settings stay in the form
        if way == "back":
            run = query.get(links.RUN)
            updates = (
                tab.open(run, lang, tab.latest(request, visitor))
                if run
                else tab.before_the_run((checkpoint or "").strip(), task, lang)
            )
            return updates | {self.way: ""}
        query.pop(links.RUN, None)
        updates, refusal = tab.follow(query, lang, None)
        return updates | (tab.pane.refused(refusal) | {self.way: ""} if refusal else {self.way: way})
