"""The page: the masthead, the tabs below it, the bar of stage mode, and the API."""

import os
import time
from collections.abc import Iterator
from typing import Any

import gradio as gr

from demo.core import catalog, hub, limits
from demo.core.machine import HostInfo
from demo.core.spec import RunSpec
from demo.runs.runner import Runner
from demo.store.history import History
from demo.ui import api
from demo.ui.jobs import MACHINE_SECONDS, RunQueue
from demo.ui.look import name_thumbnails, press
from demo.ui.look.theme import CSS, HEAD, theme
from demo.ui.tabs import links
from demo.ui.tabs.best_pane import BestPane
from demo.ui.tabs.events import AT_ONCE, QUIET, UNREAD
from demo.ui.tabs.form import default_picture, servable, thumbnails
from demo.ui.tabs.history_tab import HistoryTab
from demo.ui.tabs.pre_flight import PreFlightScreen
from demo.ui.tabs.published_tab import PublishedTab
from demo.ui.tabs.run_tab import RunTab
from demo.ui.tabs.sweep_tab import SweepTab
from demo.ui.templates import render
from demo.ui.web import gradio_workarounds
from demo.ui.web.guard import Guard

PRESETS = ("Segformer", "Graph breaks", "max-autotune", "Text")
"""What the keys 1 to 4 of stage mode run: the words on their buttons."""

DAY = 86_400
SPACES = "https://huggingface.co/spaces"
SPARE_THREADS = 40
SESSIONS = 128
"""Sessions whose state, such as a sweep's cells, the server keeps. A new one removes the one that was idle longest."""

NAME_THUMBNAILS = name_thumbnails([path.stem for path in thumbnails()])


def launch(page: "Page", **settings: Any) -> Any:
    """Serves a page with this project's settings; `settings` for gradio's `launch` take precedence."""
    listening = settings.get("server_name") or os.environ.get("GRADIO_SERVER_NAME", "")
    names = (*limits.current().hosts, *([listening.lower()] if listening else []))  # besides localhost, its addresses
    gradio_workarounds.start_on_busy_machine()
    gradio_workarounds.set_queue(page)
    page.api_open = False  # closes the routes that bypass gradio's queue
    ours: dict[str, Any] = {
        "theme": theme(),
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
            "middleware": [(Guard, (names,), {})],
        },
        "run_history": False,
        "ssr_mode": False,
        "footer_links": ["api", "settings"],
        "share": False,
        "quiet": True,
    }
    return page.launch(**(ours | settings))


class Page(gradio_workarounds.Blocks):
    """What gradio serves."""

    def __init__(self, runner: Runner, history: History | None = None) -> None:
        """`history` has the stored runs that it shows; without it, the user's own."""
        super().__init__(title="Worth compiling?", fill_width=True, analytics_enabled=False, delete_cache=(DAY, DAY))
        self._runner = runner
        self.stored = history = history or History()
        self.run_queue = queue = RunQueue()
        with self:
            top = gr.HTML(masthead(runner.machine), elem_id="masthead", apply_default_css=False)
            with gr.Tabs(elem_id="rooms", overflow_behavior="wrap") as tabs:
                with gr.Tab("Run", id="run"):
                    self.run_tab = RunTab(runner, queue, history)
                    self.best_pane = BestPane(self.run_tab)
                with gr.Tab("History", id="history") as tab:
                    self.history_tab = HistoryTab(self.run_tab, tabs, tab)
                with gr.Tab("Published", id="published") as published:
                    self.published_tab = PublishedTab(published)
                with gr.Tab("Sweep", id="sweep") as sweeps:
                    self.sweep_tab = SweepTab(self.run_tab, tabs, sweeps)
            self.stage_bar = StageBar(runner, self.run_tab)
            # what happens when a visitor opens the page
            self.load(None, js=links.TO_TAB, api_visibility="private")
            greeting = [top, self.run_tab.form.inputs["mode"]]
            greeted = self.load(self._greet, None, greeting, js=NAME_THUMBNAILS, **AT_ONCE)
            self.run_tab.settle_after(greeted)
            self.best_pane.arrive_after(self.run_tab.arrive(self))
            self.sweep_tab.arrive(self)
            endpoints = {
                "benchmark": api.endpoint(runner, queue),
                "published": api.published_table,
                "history": api.history_endpoint(history),
                "best": api.best(runner, queue, history),
            }
            for name, answer in endpoints.items():
                gr.api(answer, api_name=name, concurrency_limit=None)  # `RunQueue` keeps the order

    def _greet(self, request: gr.Request) -> Iterator[tuple[Any, Any]]:
        """Tells a new page what machine this is, when the waiting worker has said so."""
        deadline = time.monotonic() + MACHINE_SECONDS
        while self._runner.machine is None and time.monotonic() < deadline:
            time.sleep(0.2)
            yield gr.skip(), gr.skip()  # gives the thread back, and ends where the page was closed
        machine = self._runner.machine
        modes = gr.update(choices=list(machine.modes)) if machine is not None else gr.skip()
        yield masthead(machine, waited=True), modes


def masthead(machine: HostInfo | None, waited: bool = False) -> str:
    """Title, machine and switches; `waited` says that an unknown machine will stay unknown."""
    space = f"{SPACES}/{os.environ['SPACE_ID']}" if limits.on_space() else ""
    # what this machine lacks for a run, or measures in another way than the rest of the page says
    obstacles = (
        ["This ZeroGPU Space runs everything on its CPU: ZeroGPU does not support torch.compile."]
        if limits.on_zero_gpu()
        else []
    )
    if machine is not None and machine.compile_problem:
        obstacles.append(machine.compile_problem)
    if machine is not None and machine.gpu_problem:
        obstacles.append(f"The GPU cannot be used: {machine.gpu_problem}. Until then runs use the CPU.")
    return render("masthead.masthead", machine, waited, space=space, obstacles=obstacles)


# ---- stage mode: the page for a talk. Race and answer fill the screen; keys run, search, cancel

SEGFORMER = "nvidia/segformer-b0-finetuned-ade-512-512"
Preset = dict[str, Any]
"""Arguments of `catalog.make_spec`."""


def presets(gpu: bool, loadable: bool = True) -> tuple[Preset, ...]:
    """The runs of the keys 1 to 4; none takes over a minute on two cores."""
    full_size = {"checkpoint": SEGFORMER, "weights": "pretrained" if loadable else "random"}
    classifier = {"checkpoint": "shapes-vit"}
    text = {"checkpoint": "shapes-gemma", "prompt": catalog.PROMPT}
    return (
        full_size if gpu else {"checkpoint": "shapes-segformer"},
        classifier | {"graph_break": True},
        classifier | {"mode": "max-autotune"},
        text,
    )


class StageBar:
    """The bar at the bottom: a button for each preset, and one for the search. stage.css moves the form's Run and
    Cancel into it, stage.js presses them by keys."""

    def __init__(self, runner: Runner, run_tab: RunTab) -> None:
        self._runner = runner
        self._form = form = run_tab.form
        with gr.Row(elem_id="stage-bar"):
            for number, words in enumerate(PRESETS, 1):
                button = gr.Button(f"{number}  {words}", elem_id=f"preset-{number}")
                filled = button.click(self._choose, gr.State(number), list(form.inputs.values()), queue=False, **QUIET)
                filled.then(None, js=press("run"), api_visibility="private")
            number = len(PRESETS) + 1
            search = gr.Button(f"{number}  Best way", elem_id=f"preset-{number}")
            search.click(None, js=press("best"), api_visibility="private")
            self.pre_flight = PreFlightScreen(run_tab, PRESETS, self._presets)
            recorded = gr.Button("S  Recorded", elem_id="preset-s")
            asked = [run_tab.visitor, *form.inputs.values()]
            recorded.click(run_tab.recorded, asked, run_tab.showing, **UNREAD)
            gr.Markdown("<kbd>D</kbd> dark", elem_id="stage-keys")

    def _presets(self) -> list[RunSpec]:
        """The presets' settings on this machine."""
        machine = self._runner.machine
        gpu = machine is not None and machine.gpu is not None
        return [catalog.make_spec(**preset) for preset in presets(gpu, loadable=gpu and hub.can_load(SEGFORMER))]

    def _choose(self, number: int) -> dict[Any, Any]:
        """Makes the form ask for a preset, with its model's default picture."""
        spec = self._presets()[number - 1]
        return links.filled(self._form, spec) | {self._form.inputs["image"]: servable(default_picture(spec.checkpoint))}
