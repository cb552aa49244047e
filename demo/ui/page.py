"""The page: its masthead, its tabs, what happens when it opens, and the endpoints of the API."""

import os
from typing import Any

import gradio as gr
from fastapi import FastAPI

from ..core import format as fmt, limits
from ..core.cores import usable_cores
from ..core.machine import HostInfo
from ..core.options import BadInput
from ..runs.runner import Runner
from ..store.history import History
from . import api
from .desk import Desk
from .look.theme import CSS, HEAD, theme
from .run_queue import RunQueue
from .tabs import links
from .tabs.best_pane import BestPane
from .tabs.events import EVENT_OPTIONS
from .tabs.history_tab import HistoryTab
from .tabs.published_tab import PublishedTab
from .tabs.run_tab import RunTab
from .tabs.stage_bar import StageBar
from .tabs.sweep_tab import SweepTab
from .templates import render
from .web import gradio_workarounds, mcp_pictures, uploads
from .web.guard import Guard
from .works import machine_of

SPARE_THREADS = 40
SESSIONS = 128
"""The most sessions whose state the server keeps. A further session removes the state of the longest idle one."""


def launch(page: "Page", **settings: Any) -> tuple[FastAPI, str, str]:
    """Calls gradio's `launch` with this project's settings. Arguments in `settings` override them."""
    names = limits.current().hosts
    if listening := settings.get("server_name") or os.environ.get("GRADIO_SERVER_NAME", ""):
        names = (*names, listening.lower())
    gradio_workarounds.prepare(page)
    if settings.get("mcp_server"):
        mcp_pictures.install()
    page.api_open = False  # makes gradio refuse calls that bypass its queue
    ours: dict[str, Any] = {
        "theme": theme(),
        "css": CSS,
        "head": HEAD,
        "show_error": False,
        "max_file_size": limits.current().file_bytes,
        # an API call occupies a thread while its run or search waits or runs; SPARE_THREADS answer everything else
        "max_threads": 2 * limits.current().queue + SPARE_THREADS,
        # each API call is a session of its own, and gradio keeps the state of each
        "state_session_capacity": SESSIONS,
        "allowed_paths": [],
        "app_kwargs": {
            "middleware": [(Guard, (page, names), {})],
            "lifespan": uploads.removing_old,
            "openapi_url": None,
        },
        "enable_monitoring": False,
        "run_history": False,
        "ssr_mode": False,
        "footer_links": ["api", "settings"],
        "share": False,
        "quiet": True,
    }
    return page.launch(**(ours | settings))


class Page(gradio_workarounds.Blocks):
    """The whole page as gradio's `Blocks`."""

    def __init__(self, runner: Runner, history: History | None = None) -> None:
        """`history`: the stored runs that the page shows; None for the history in the user's default folder."""
        super().__init__(title="Worth compiling?", fill_width=True, analytics_enabled=False)
        self.desk = desk = Desk(runner, RunQueue(), history or History())
        with self:
            top = gr.HTML(masthead(runner.machine), elem_id="masthead", apply_default_css=False)
            with gr.Tabs(elem_id="rooms", overflow_behavior="wrap") as tabs:
                with gr.Tab("Run", id="run"):
                    self.run_tab = RunTab(desk)
                    self.best_pane = BestPane(desk, self.run_tab)
                with gr.Tab("History", id="history") as tab:
                    self.history_tab = HistoryTab(desk.history, self.run_tab, tabs, tab)
                with gr.Tab("Published", id="published") as published:
                    self.published_tab = PublishedTab(desk.history, published)
                with gr.Tab("Sweep", id="sweep") as sweeps:
                    self.sweep_tab = SweepTab(desk, self.run_tab, tabs, sweeps)
            self.stage_bar = StageBar(desk, self.run_tab)
            # what happens when a visitor opens the page
            self.load(None, js=links.TO_TAB, api_visibility="private")
            greeting = [top, self.run_tab.form.inputs["mode"]]
            greeted = self.load(self._greet, None, greeting, **EVENT_OPTIONS)
            self.run_tab.settle_after(greeted)
            self.best_pane.arrive_after(self.run_tab.arrive(self))
            self.sweep_tab.arrive(self)
            endpoints = {
                "benchmark": api.make_benchmark(runner, desk.queue),
                "published": api.published_table,
                "history": api.make_history(desk.history),
                "best": api.make_best(runner, desk.queue, desk.history),
            }
            for name, function in endpoints.items():
                # `RunQueue` lets one run at a time through; 200 whole results need 50 MB and a second of the processor
                gr.api(function, api_name=name, concurrency_limit=2 if name == "history" else None)

    def _greet(self) -> tuple[object, object]:
        """Waits until the worker has reported the machine. Returns updates of the masthead and of the list of modes.

        If no report comes in time, the updates leave the list as it is.
        """
        try:
            machine = machine_of(self.desk.runner)
        except BadInput:
            return masthead(None, waited=True), gr.skip()
        return masthead(machine), gr.update(choices=list(machine.modes))


def masthead(machine: HostInfo | None, waited: bool = False) -> str:
    """Returns the top of the page as HTML, with the name of the machine.

    If `machine` is None, "Looking at this machine …" takes the place of the name. With `waited`, no worker has
    answered in time, and this place stays empty.
    """
    space = f"https://huggingface.co/spaces/{os.environ['SPACE_ID']}" if limits.on_space() else ""
    obstacles = []
    if limits.on_zero_gpu():
        obstacles.append("This ZeroGPU Space runs everything on its CPU: ZeroGPU does not support torch.compile.")
    if machine is not None and machine.compile_problem:
        obstacles.append(machine.compile_problem)
    if machine is not None and machine.gpu_problem:
        obstacles.append(f"The GPU cannot be used: {machine.gpu_problem}. Until then runs use the CPU.")
    cores = "" if machine is None or machine.gpu else fmt.count(usable_cores(), "core")
    return render("masthead.masthead", machine, waited, cores, space=space, obstacles=obstacles)
