"""The page: the masthead, the tabs under it, and the API beside them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from demo import limits
from demo.history import History
from demo.precompiling import Precompiler
from demo.schema import Machine
from demo.ui import api
from demo.ui.form import Choice, default_choice, examples
from demo.ui.guard import Guard
from demo.ui.history_tab import HistoryTab
from demo.ui.line import Line
from demo.ui.parts import esc
from demo.ui.published_tab import PublishedTab, published_table
from demo.ui.run_tab import RunTab
from demo.ui.runs import AnyRunner
from demo.ui.stage import SWITCH, StageBar
from demo.ui.sweep_tab import SweepTab
from demo.ui.theme import CSS, HEAD, Paper

MACHINE_SECONDS = 30.0
"""How long a new page waits for the worker to say what machine this is."""
DAY = 86_400
SPARE_THREADS = 40

NAME_EXAMPLES = """() => {
  const names = NAMES;
  document.querySelectorAll('#examples button.gallery-item').forEach((button, place) => {
    button.setAttribute('aria-label', 'Example: ' + (names[place] || place + 1));
  });
}""".replace("NAMES", json.dumps([path.stem for path in examples()]))
"""gradio gives the thumbnails no name that could be read aloud."""


def build(runner: AnyRunner, choice: Choice | None = None, history: History | None = None) -> gr.Blocks:
    """The page for this runner. `choice` is what the form holds at first; without it the machine decides.

    `history` holds the stored runs that the page shows; without it, the user's own.
    """
    return Page(runner, choice, history).blocks


def launch(page: gr.Blocks, **more: Any) -> Any:
    """Serves the page as this project wants it: nothing served but the page, nothing sent to anybody."""
    settings: dict[str, Any] = {
        "theme": Paper(),
        "css": CSS,
        "head": HEAD,
        "show_error": False,
        "max_file_size": limits.current().file_bytes,
        # a run that waits or runs holds a thread; the others are for everything else that the page answers
        "max_threads": limits.current().queue + SPARE_THREADS,
        "allowed_paths": [],
        "app_kwargs": {"middleware": [(Guard, (), {})]},
        "run_history": False,
        "ssr_mode": False,
        "footer_links": ["api", "settings"],
        "share": False,
        "quiet": True,
    }
    return page.launch(**(settings | more))


class Page:
    """`blocks` is what gradio serves."""

    def __init__(self, runner: AnyRunner, choice: Choice | None = None, history: History | None = None) -> None:
        self._runner = runner
        history = history or History()
        line = Line()
        with gr.Blocks(
            title="Worth compiling?", fill_width=True, analytics_enabled=False, delete_cache=(DAY, DAY)
        ) as self.blocks:
            self._masthead = gr.HTML(_masthead(runner.machine), elem_id="masthead", apply_default_css=False)
            with gr.Tabs(elem_id="rooms") as tabs:
                with gr.Tab("Run", id="run"):
                    self.run_tab = RunTab(runner, line, choice, history)
                with gr.Tab("History", id="history") as tab:
                    self.history_tab = HistoryTab(history, self.run_tab, tabs, tab, "run")
                with gr.Tab("Published", id="published") as published:
                    self.published_tab = PublishedTab(published)
                with gr.Tab("Sweep", id="sweep"):
                    self.sweep_tab = SweepTab(runner, line, history, Precompiler())
            StageBar(runner, self.run_tab.form)
            greeted = self.blocks.load(
                self._greet,
                None,
                [self._masthead, self.run_tab.mode],
                js=NAME_EXAMPLES,
                show_progress="hidden",
                api_visibility="private",
                concurrency_limit=None,
            )
            self.run_tab.settle_after(greeted)
            self.run_tab.arrive(self.blocks)
            gr.api(
                api.endpoint(runner, line, choice or default_choice(None, hub_ok=False)),
                api_name="benchmark",
                concurrency_limit=None,  # the line keeps the order, and says so when it is full
            )
            gr.api(published_table, api_name="published", concurrency_limit=None)
            gr.api(api.stored(history), api_name="history", concurrency_limit=None)

    def _greet(self) -> Iterator[tuple[Any, Any]]:
        """Tells a new page what machine this is, as soon as the waiting worker has said so."""
        deadline = time.monotonic() + MACHINE_SECONDS
        while self._runner.machine is None and time.monotonic() < deadline:
            time.sleep(0.2)
            yield gr.skip(), gr.skip()
        yield _masthead(self._runner.machine, waited=True), gr.update(choices=list(self._runner.modes))


def _masthead(machine: Machine | None, waited: bool = False) -> str:
    if machine is None:
        here = "" if waited else "<span>Looking at this machine …</span>"
    else:
        here = f"<b>{esc(machine.device_name)}</b><span>torch {esc(machine.torch)}</span>"
    return (
        '<header><div class="wordmark"><span class="mark" aria-hidden="true"><i></i><i></i></span>'
        "<h1>Worth compiling?</h1></div>"
        '<p class="promise">Times a vision model with and without <code>torch.compile</code>, '
        "and says whether it pays on this machine.</p>"
        f'<p class="machine">{here}</p>{SWITCH}</header>{_obstacles(machine)}'
    )


def _obstacles(machine: Machine | None) -> str:
    """What this machine lacks, said before anybody presses Run in vain."""
    lacks = []
    if machine is not None and machine.compiler is None:
        lacks.append("No C++ compiler was found, and torch.compile needs one: install build-essential (or set CXX).")
    if machine is not None and machine.gpu_problem:
        lacks.append(f"The GPU cannot be used: {machine.gpu_problem}. Until then runs use the CPU.")
    return "".join(f'<p class="obstacle" role="status">{esc(sentence)}</p>' for sentence in lacks)
