"""The folds under a result, as gradio components: Why, Cost, Take it with you."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.runs.outcome import Files
from demo.ui.html.sections import Section
from demo.ui.web.visitor_language import label


@dataclass
class Fold:
    """Parts one below the other, each with its figure."""

    name: str
    """'fold_why': the key of its title."""
    sections: Sequence[Section]
    accordion: gr.Accordion
    html: dict[str, gr.HTML]
    """By the name of the section, as the figures."""
    figures: dict[str, gr.Plot]
    files: dict[str, gr.DownloadButton] = field(default_factory=dict)
    """Files of the run to download, by their names in `Files`."""

    @classmethod
    def build(cls, name: str, sections: Sequence[Section], files: Sequence[str] = ()) -> Fold:
        """An empty, hidden fold, in the layout that is open."""
        with gr.Accordion(
            "", open=False, visible=False, elem_id=name.replace("_", "-"), elem_classes="fold"
        ) as accordion:
            html, figures = {}, {}
            for section in sections:
                html[section.name] = section.component(section.name)
                if section.figure is not None:
                    figures[section.name] = gr.Plot(visible=False, show_label=False, elem_id=f"figure-{section.name}")
            buttons = {file: gr.DownloadButton(label(file), visible=False, size="sm", elem_id=file) for file in files}
        return cls(name, sections, accordion, html, figures, buttons)

    @property
    def components(self) -> list[Any]:
        return [*self.html.values(), *self.figures.values(), *self.files.values()]

    def shown(self, result: RunResult, files: Files, lang: Language) -> dict[Any, Any]:
        """Updates that fill it from `result` and its files, or hide it if none of its parts has something to tell."""
        updates: dict[Any, Any] = {}
        told = False
        for section in self.sections:
            html = section.html(result, lang)
            updates[self.html[section.name]] = gr.update(value=html, visible=bool(html))
            told |= bool(html)
            if section.figure is not None:
                drawn = section.figure(result, lang) if html else None
                updates[self.figures[section.name]] = gr.update(value=drawn, visible=drawn is not None)
        for name, button in self.files.items():
            file = getattr(files, name)
            updates[button] = gr.update(value=file and str(file), visible=file is not None)
        return updates | {self.accordion: gr.update(visible=told, label=lang.plain(self.name), open=False)}
