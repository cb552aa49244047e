"""The folded sections under a result, as gradio components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.runs.outcome import Files
from demo.ui.html.sections import Section
from demo.ui.web.visitor_language import label


@dataclass
class Fold:
    """One folded section under the result."""

    section: Section
    accordion: gr.Accordion
    html: gr.HTML
    figure: gr.Plot | None
    file: gr.DownloadButton | None

    @classmethod
    def build(cls, section: Section) -> Fold:
        """An empty, hidden fold, in the layout that is open."""
        with gr.Accordion(
            "", open=False, visible=False, elem_id=f"section-{section.name}", elem_classes="fold"
        ) as fold:
            html = gr.HTML(apply_default_css=False)
            figure = gr.Plot(show_label=False) if section.figure is not None else None
            file = (
                gr.DownloadButton(label(section.file), visible=False, size="sm", elem_id=section.file)
                if section.file
                else None
            )
        return cls(section, fold, html, figure, file)

    def shown(self, result: RunResult, files: Files, lang: Language) -> dict[Any, Any]:
        """Updates that fill it from `result` and its file, or hide it if its section has no title."""
        title = self.section.title(result, lang)
        if not title:
            return {self.accordion: gr.update(visible=False)}
        updates: dict[Any, Any] = {
            self.accordion: gr.update(visible=True, label=title, open=False),
            self.html: self.section.html(result, lang),
        }
        if self.figure is not None and self.section.figure is not None:
            drawn = self.section.figure(result, lang)
            updates[self.figure] = gr.update(value=drawn, visible=drawn is not None)
        if self.file is not None:
            file = getattr(files, self.section.file)
            updates[self.file] = gr.update(value=file and str(file), visible=file is not None)
        return updates
