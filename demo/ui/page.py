"""The page: the masthead, the tabs under it, and the API beside them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from demo.core import limits
from demo.core.languages import ENGLISH, LANGUAGES, Language
from demo.core.result import Machine
from demo.runs.precompiler import Precompiler
from demo.store.history import History
from demo.ui import api
from demo.ui.jobs.queue import Line
from demo.ui.look.theme import CALM, CSS, HEAD, Paper
from demo.ui.runs import AnyRunner
from demo.ui.tabs.form import Choice, default_choice, examples
from demo.ui.tabs.history import HistoryTab
from demo.ui.tabs.published import PublishedTab, published_table
from demo.ui.tabs.run import RunTab
from demo.ui.tabs.stage_mode import StageBar, switch
from demo.ui.tabs.sweep import SweepTab
from demo.ui.web import visitor_language as language
from demo.ui.web.request_limits import Guard
from demo.ui.web.visitor_language import Spoken, label, of, written

MACHINE_SECONDS = 30.0
"""How long a new page waits for the worker to say what machine this is."""
DAY = 86_400
SPARE_THREADS = 40
SESSIONS = 128
"""Visitors of whom the server keeps what only their page knows, such as a sweep's cells; more push out the idlest."""
LOOK_SECONDS = 0.05
"""How often gradio's queue looks for a new event: its own figure for Windows. Elsewhere it looks a thousand times a
second, which takes a fifteenth of a core from what is being timed, whether a page is open or not."""

NAME_EXAMPLES = """() => {
  const names = NAMES, words = WORDS[document.documentElement.lang] || WORDS.en;
  document.querySelectorAll('#examples button.gallery-item').forEach((button, place) => {
    button.setAttribute('aria-label', words.replace('{name}', names[place] || place + 1));
  });
}""".replace("NAMES", json.dumps([path.stem for path in examples()])).replace(
    "WORDS", json.dumps({code: one.texts["example"] for code, one in LANGUAGES.items()})
)
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
        # each call of the API counts as a session of its own, which gradio keeps, with a third of a megabyte
        "state_session_capacity": SESSIONS,
        "allowed_paths": [],
        "app_kwargs": {"middleware": [(Guard, (), {}), (Spoken, (CALM,), {})]},
        "i18n": language.translations(),
        "run_history": False,
        "ssr_mode": False,
        "footer_links": ["api", "settings"],
        "share": False,
        "quiet": True,
    }
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = LOOK_SECONDS
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
            self._masthead = gr.HTML(
                written(lambda say: _masthead(runner.machine, say=say)), elem_id="masthead", apply_default_css=False
            )
            with gr.Tabs(elem_id="rooms") as tabs:
                with gr.Tab(label("tab_run"), id="run"):
                    self.run_tab = RunTab(runner, line, choice, history)
                with gr.Tab(label("tab_history"), id="history") as tab:
                    self.history_tab = HistoryTab(history, self.run_tab, tabs, tab, "run")
                with gr.Tab(label("tab_published"), id="published") as published:
                    PublishedTab(published)
                with gr.Tab(label("tab_sweep"), id="sweep"):
                    self.sweep_tab = SweepTab(runner, line, history, self.run_tab, Precompiler())
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
            self.sweep_tab.arrive(self.blocks)
            gr.api(
                api.endpoint(runner, line, choice or default_choice(None, hub_ok=False)),
                api_name="benchmark",
                concurrency_limit=None,  # the line keeps the order, and says so when it is full
            )
            gr.api(published_table, api_name="published", concurrency_limit=None)
            gr.api(api.stored(history), api_name="history", concurrency_limit=None)

    def _greet(self, request: gr.Request) -> Iterator[tuple[Any, Any]]:
        """Tells a new page what machine this is, as soon as the waiting worker has said so."""
        deadline = time.monotonic() + MACHINE_SECONDS
        while self._runner.machine is None and time.monotonic() < deadline:
            time.sleep(0.2)
            yield gr.skip(), gr.skip()
        masthead = _masthead(self._runner.machine, waited=True, say=of(request))
        yield masthead, gr.update(choices=list(self._runner.modes))


def _masthead(machine: Machine | None, waited: bool = False, say: Language = ENGLISH) -> str:
    if machine is None:
        here = "" if waited else f"<span>{say.html('looking')}</span>"
    else:
        here = f"<b>{say.value(machine.device_name)}</b><span>{say.value(f'torch {machine.torch}')}</span>"
    return (
        '<header><div class="wordmark"><span class="mark" aria-hidden="true"><i></i><i></i></span>'
        f"<h1>{say.html('title')}</h1></div>"
        f'<p class="promise">{say.html("promise")}</p>'
        f'<p class="machine">{here}</p>{language.switch(say)}{switch(say)}</header>{_obstacles(machine, say)}'
    )


def _obstacles(machine: Machine | None, say: Language) -> str:
    """What this machine lacks, said before anybody presses Run in vain."""
    lacks = []
    if machine is not None and machine.compiler is None:
        lacks.append(say.html("obstacle_compiler"))
    if machine is not None and machine.gpu_problem:
        lacks.append(say.html("obstacle_gpu", problem=machine.gpu_problem))
    return "".join(f'<p class="obstacle" role="status">{sentence}</p>' for sentence in lacks)
