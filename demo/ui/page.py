"""The page: the masthead, the tabs below it, and the API."""

import os
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr
from fastapi.exceptions import RequestValidationError

from demo.core import limits
from demo.core.languages import LANGUAGES, Language
from demo.core.machine import HostInfo
from demo.runs.runner import Runner
from demo.store.history import History
from demo.store.hub_dataset import PushedHistory
from demo.ui import api
from demo.ui.html import takeaway
from demo.ui.html.elements import drawn
from demo.ui.jobs import MACHINE_SECONDS, RunQueue
from demo.ui.look import script
from demo.ui.look.scripts import name_thumbnails
from demo.ui.look.theme import CSS, HEAD, Paper
from demo.ui.tabs import links, stage_mode
from demo.ui.tabs.best_pane import BestPane
from demo.ui.tabs.events import AT_ONCE
from demo.ui.tabs.form import GALLERIES, examples
from demo.ui.tabs.history_tab import HistoryTab
from demo.ui.tabs.run_tab import RunTab
from demo.ui.tabs.sweep_tab import SweepTab
from demo.ui.tabs.table_tabs import PublishedTab, SharedTab
from demo.ui.web import gradio_workarounds, visitor_language
from demo.ui.web.guard import Guard, unreadable
from demo.ui.web.preview import Previews
from demo.ui.web.upkeep import upkeep
from demo.ui.web.visitor_language import Spoken, label, request_language, written

DAY = 86_400
SPARE_THREADS = 40
SESSIONS = 128
"""Sessions whose state, such as a sweep's cells, the server keeps. A new one removes the one that was idle longest."""

NAME_THUMBNAILS = name_thumbnails(
    {gallery: [path.stem for path in examples(drawn)] for gallery, drawn in GALLERIES.items()},
    {code: language.texts["example"] for code, language in LANGUAGES.items()},
)


def build(runner: Runner, history: History | None = None) -> "Blocks":
    """The page for this runner. `history` has the stored runs that it shows; without it, the user's own."""
    return Page(runner, history).blocks


class Blocks(gradio_workarounds.Blocks):
    """What gradio serves."""

    stored: History
    """The runs that have a link, and so a preview."""


def launch(page: Blocks, **settings: Any) -> Any:
    """Serves a page with this project's settings; `settings` for gradio's `launch` take precedence."""
    listening = settings.get("server_name") or os.environ.get("GRADIO_SERVER_NAME", "")
    names = (*limits.current().hosts, *([listening.lower()] if listening else []))  # besides localhost, its addresses
    if settings.get("mcp_server"):
        gradio_workarounds.install_mcp_server()
    gradio_workarounds.set_queue(page)
    page.api_open = False  # closes the routes that bypass gradio's queue
    previews = Previews(page.stored)
    ours: dict[str, Any] = {
        "theme": Paper(),
        "css": CSS,
        "head": HEAD,
        "show_error": False,
        "max_file_size": limits.current().file_bytes,
        # each run and each search of the API that waits or runs occupies a thread; the others answer everything else
        "max_threads": 2 * limits.current().queue + SPARE_THREADS,
        # each API call is a session of its own, of which gradio keeps a third of a megabyte
        "state_session_capacity": SESSIONS,
        "allowed_paths": [],
        "app_kwargs": {
            "middleware": [
                (Guard, (page, names), {}),
                (Spoken, (previews, script("calm.js")), {}),  # calm.js stands before all other scripts of the page
            ],
            "routes": previews.routes,  # before those of gradio
            "exception_handlers": {RequestValidationError: unreadable},
            "lifespan": upkeep,
        },
        "i18n": visitor_language.translations(),
        "run_history": False,
        "ssr_mode": False,
        "footer_links": ["api", "settings"],
        "share": False,
        "quiet": True,
    }
    return page.launch(**(ours | settings))


class Page:
    """`blocks` is what gradio serves."""

    def __init__(self, runner: Runner, history: History | None = None) -> None:
        """The arguments are those of `build`."""
        self._runner = runner
        history = history or History()
        self.queue = queue = RunQueue()
        with Blocks(
            title="Worth compiling?", fill_width=True, analytics_enabled=False, delete_cache=(DAY, DAY)
        ) as self.blocks:
            self.blocks.stored = history
            self._masthead = gr.HTML(
                written(lambda lang: masthead(runner.machine, lang)), elem_id="masthead", apply_default_css=False
            )
            with gr.Tabs(elem_id="rooms", overflow_behavior="wrap") as tabs:
                with gr.Tab(label("tab_run"), id="run"):
                    self.run_tab = RunTab(runner, queue, history)
                    self.best_pane = BestPane(self.run_tab)
                with gr.Tab(label("tab_history"), id="history") as tab:
                    self.history_tab = HistoryTab(self.run_tab, tabs, tab)
                with gr.Tab(label("tab_published"), id="published") as published:
                    PublishedTab(published)
                if isinstance(history, PushedHistory):
                    with gr.Tab(label("tab_shared"), id="shared") as shared:
                        SharedTab(history.shared, queue, shared)
                with gr.Tab(label("tab_sweep"), id="sweep") as sweeps:
                    self.sweep_tab = SweepTab(self.run_tab, sweeps)
            self.run_tab.follow_links()
            stage_mode.StageBar(runner, self.run_tab.form)
            self._wire()
            endpoints = {
                "benchmark": api.endpoint(runner, queue),
                "published": api.published_table,
                "history": api.stored(history),
                "best": api.best(runner, queue, history),
            }
            for name, answer in endpoints.items():
                gr.api(answer, api_name=name, concurrency_limit=None)  # `RunQueue` keeps the order

    def _wire(self) -> None:
        """Connects what happens when a visitor opens the page."""
        self.blocks.load(None, js=links.TO_TAB, api_visibility="private")
        greeting = [self._masthead, self.run_tab.form.inputs["mode"]]
        greeted = self.blocks.load(self._greet, None, greeting, js=NAME_THUMBNAILS, **AT_ONCE)
        self.run_tab.settle_after(greeted)
        self.best_pane.arrive_after(self.run_tab.arrive(self.blocks))
        self.sweep_tab.arrive(self.blocks)

    def _greet(self, request: gr.Request) -> Iterator[tuple[Any, Any]]:
        """Tells a new page what machine this is, when the waiting worker has said so."""
        deadline = time.monotonic() + MACHINE_SECONDS
        while self._runner.machine is None and time.monotonic() < deadline:
            time.sleep(0.2)
            yield gr.skip(), gr.skip()  # gives the thread back, and ends where the page was closed
        machine = self._runner.machine
        yield masthead(machine, request_language(request), waited=True), gr.update(choices=list(self._runner.modes))


def masthead(machine: HostInfo | None, lang: Language, waited: bool = False) -> str:
    """Title, machine and switches; `waited` says that an unknown machine will stay unknown."""
    return drawn(
        "masthead.masthead",
        lang,
        machine,
        waited,
        space=takeaway.space(),
        printed=lang.plain("printed", time="{time}", address="{address}"),  # which print.js knows
        languages=LANGUAGES.values(),
        obstacles=_obstacles(machine),
    )


def _obstacles(machine: HostInfo | None) -> list[tuple[str, dict[str, str]]]:
    """What this machine lacks for a run, or measures in another way than the rest of the page says: keys and values."""
    lacks: list[tuple[str, dict[str, str]]] = [("zero_gpu_measures", {})] if limits.on_zero_gpu() else []
    if machine is not None and machine.compiler is None:
        lacks.append(("obstacle_compiler", {}))
    if machine is not None and machine.gpu_problem:
        lacks.append(("obstacle_gpu", {"problem": machine.gpu_problem}))
    return lacks
