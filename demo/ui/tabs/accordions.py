"""The folds under a result, as gradio components: Why, Cost, Take it with you."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.runs.outcome import Files
from demo.ui.html.sections import CHARTS
from demo.ui.web.visitor_language import label


def hidden(name: str) -> gr.HTML:
    """What holds the HTML of a part."""
    return gr.HTML(visible=False, elem_id=f"part-{name}", apply_default_css=False)


@dataclass
class Fold:
    """Parts one below the other, each with its figure."""

    name: str
    """'fold_why': the key of its title."""
    accordion: gr.Accordion
    html: dict[str, gr.HTML]
    """By the name of the part, as the figures."""
    figures: dict[str, gr.Plot]
    files: dict[str, gr.DownloadButton]
    """Files of the run to download, by their names in `Files`."""

    @classmethod
    def build(
        cls,
        name: str,
        parts: Iterable[str],
        files: Sequence[str] = (),
        component: Callable[[str], gr.HTML] = hidden,
    ) -> Fold:
        """An empty, hidden fold, in the layout that is open."""
        with gr.Accordion(
            "", open=False, visible=False, elem_id=name.replace("_", "-"), elem_classes="fold"
        ) as accordion:
            html, figures = {}, {}
            for part in parts:
                html[part] = component(part)
                if part in CHARTS:
                    figures[part] = gr.Plot(visible=False, show_label=False, elem_id=f"figure-{part}")
            buttons = {file: gr.DownloadButton(label(file), visible=False, size="sm", elem_id=file) for file in files}
        return cls(name, accordion, html, figures, buttons)

    @property
    def components(self) -> list[Any]:
        return [*self.html.values(), *self.figures.values(), *self.files.values()]

    def shown(self, parts: Mapping[str, str], result: RunResult, files: Files, lang: Language) -> dict[Any, Any]:
        """Updates that fill it, or hide it if none of its parts has something to tell.

        `parts` is the HTML of each part that has; `files` are those of the run.
        """
        updates: dict[Any, Any] = {}
        for name, component in self.html.items():
            updates[component] = gr.update(value=parts.get(name, ""), visible=bool(parts.get(name)))
        for name, plot in self.figures.items():
            drawn = CHARTS[name](result, lang) if parts.get(name) else None
            updates[plot] = gr.update(value=drawn, visible=drawn is not None)
        for name, button in self.files.items():
            file = getattr(files, name)
            updates[button] = gr.update(value=file and str(file), visible=file is not None)
        told = any(parts.get(name) for name in self.html)
        return updates | {self.accordion: gr.update(visible=told, label=lang.plain(self.name), open=False)}
