"""The tab of sweeps: choose a grid, watch it fill, open a cell, stop, continue, export the table."""

import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder
from markupsafe import Markup

from demo.core import catalog, format as fmt, limits
from demo.core.spec import DTYPES, MODES, WEIGHTS, BadInput
from demo.present import markdown
from demo.store.history import HistoryError
from demo.sweep.grid import AXES, PICTURE, PRESETS, Cell, Grid, make_cells, read_grid, write_device_table, write_table
from demo.sweep.run_grid import Done, Timing, Waiting
from demo.ui.html import many_runs, results
from demo.ui.html.elements import drawn
from demo.ui.jobs import Supervisor, Sweep, attempted, machine_of
from demo.ui.look import TO_SWEEP, source
from demo.ui.tabs import links
from demo.ui.tabs.events import AT_ONCE, LATEST, QUIET, Watching, pressed_of, told
from demo.ui.tabs.run_tab import RunTab

GRIDS = {"published": "Preset: the guide's 12 models", "smoke": "Preset: 4 bundled models"}
AXIS_NAMES = {
    "checkpoints": "Checkpoints",
    "batch_sizes": "Batch sizes",
    "modes": "Modes",
    "dtypes": "Number formats",
}
STORED_A_CELL, MAX_STORED = 20, 2000
"""Stored runs of its checkpoints, newest first, that a sweep searches for finished cells: for each cell, and in all.
Without a limit a press of Start would read the whole history into memory."""


class SweepTab(Watching):
    """Make it inside the `gr.Tab` that holds it."""

    def __init__(self, run_tab: RunTab, tab: gr.Tab) -> None:
        """`run_tab` knows the visitors; `tab` is the tab of the sweeps."""
        self._run_tab = run_tab
        with gr.Row(elem_id="sweep-desk", equal_height=False):
            with gr.Column(elem_id="sweep-form", scale=0, min_width=320):
                self.axes = _axis_fields()
                self._weights = gr.Radio(
                    list(WEIGHTS),
                    value="pretrained",
                    label="Weights",
                    info="Random weights need no download; timings stay valid, predictions do not",
                    elem_classes="segmented",
                )
                self._fresh = gr.Checkbox(False, label="Re-run everything", info="Otherwise finished cells are reused")
                self._presets = {
                    name: gr.Button(words, size="sm", elem_classes="preset") for name, words in GRIDS.items()
                }
                with gr.Column(elem_id="sweep-foot"):
                    self.plan = gr.HTML("", elem_id="sweep-plan", apply_default_css=False)
                    with gr.Row(elem_id="sweep-actions"):
                        self.start_button = gr.Button("Start", variant="primary", elem_id="sweep-start")
                        self.stop_button = gr.Button("Stop", interactive=False, elem_id="sweep-stop")
            with gr.Column(elem_id="sweep-stage", min_width=320):
                opening = drawn("sweep_status.opening")
                self.status = gr.HTML(opening, elem_id="sweep-status", apply_default_css=False)
                self.map = gr.HTML("", elem_id="sweep-map", apply_default_css=False, js_on_load=source("open_run.js"))
                with gr.Row(elem_id="sweep-exports"):
                    self.exports = {
                        ending: gr.DownloadButton(f"Export {ending[1:].upper()}", visible=False, size="sm")
                        for ending in (".csv", ".json")
                    }
                    self.keep_button = gr.Button(
                        "Save as this machine's table", visible=False, size="sm", elem_id="sweep-keep"
                    )
                self.kept = gr.HTML("", elem_id="sweep-kept", apply_default_css=False)
                self.opened = gr.Markdown("", elem_id="sweep-opened", elem_classes="section")
        buttons = [self.start_button, self.stop_button, self.keep_button, *self.exports.values()]
        super().__init__(Supervisor("sweep"), [self.status, self.map], [self.status, self.map, *buttons])
        self._beginning = [*self._ending, self.kept, self.opened, self.watched]
        self._wire(tab)

    def arrive(self, blocks: gr.Blocks) -> None:
        """Connects what happens when a visitor opens the page: it shows the visitor's sweep. Call it once."""
        changed = [*self._beginning, *self.axes.values(), self._weights]
        self._watch_after(blocks.load(self._arrive, self._run_tab.visitor, changed, **AT_ONCE))

    def _wire(self, tab: gr.Tab) -> None:
        asked: list[Any] = [*self.axes.values(), self._weights, self._fresh]
        gr.on(
            [tab.select, *(field.change for field in asked)],
            self._planned,
            asked,
            self.plan,
            **AT_ONCE,
            **LATEST,
        )
        for name, button in self._presets.items():
            values = list(_choices_of(PRESETS[name]).values())
            button.click(lambda values=values: values, None, list(self.axes.values()), **QUIET)
        self.start_button.click(None, js=TO_SWEEP, api_visibility="private")
        visitor = self._run_tab.visitor
        begun = self.start_button.click(self._run, [visitor, *asked], self._beginning, **AT_ONCE)
        self._watch_after(begun).then(self._planned, asked, self.plan, **AT_ONCE)
        self.stop_button.click(self._cancel, visitor, self.stop_button, queue=False, **QUIET)
        self.keep_button.click(self._as_measured, self.watched, self.kept, concurrency_limit=1, **QUIET)
        self.map.select(self._open, self.watched, self.opened, **AT_ONCE)

    def _run(self, request: gr.Request, visitor: str | None, *values: Any) -> dict[Any, Any]:
        """A press of Start. After a stop it continues: stored results are not run again."""
        return self._start(request, visitor, lambda name: self._sweep(values, name))

    def _refused(self, card: Markup) -> dict[Any, Any]:
        return {self.status: card, self.watched: None}

    def _sweep(self, values: Iterable[Any], visitor: str = "") -> Sweep:
        """The sweep that Start would begin, with what is stored already. Raises BadInput and HistoryError."""
        *axes, weights, fresh = values
        given = dict(zip(self.axes, axes, strict=True)) | {"weights": weights}
        specs = read_grid(given | {"text": catalog.QUERIES, "prompt": catalog.PROMPT}, "The sweep").specs()
        if len(specs) > (max_cells := limits.current().sweep_cells):
            raise BadInput(
                f"A sweep from this page has at most {max_cells} cells. Given: {len(specs)}. Choose fewer, or run the "
                f"sweep on a machine of your own; {limits.variable('sweep_cells')} sets the limit."
            )
        tab, checkpoints = self._run_tab, {spec.checkpoint for spec in specs}
        stored = tab.history.all(min(STORED_A_CELL * len(specs), MAX_STORED), checkpoints=checkpoints)
        cells = make_cells(specs, stored, machine_of(tab.runner), PICTURE, bool(fresh))
        return Sweep(tab.runner, tab.queue, visitor, tuple(cells), stored)

    def _planned(self, request: gr.Request, *values: Any) -> str:
        """What Start would do: cells, time and downloads, or why it would be refused."""
        try:
            return many_runs.plan(self._sweep(values))
        except (BadInput, HistoryError) as refused:
            return drawn("results.no_forecast", fmt.redact(str(refused)))

    def _arrive(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        """A page has opened: it shows its visitor's sweep that goes on, or whose end no page has shown."""
        going = self.work_of(request, visitor)
        if not isinstance(going, Sweep) or (going.ended and going.delivered):
            return {self.watched: None}
        # the choices that made the cells, so that Start on a page that was loaded anew continues them
        specs = [cell.spec for cell in going.cells]
        chosen = {
            field: list(dict.fromkeys(str(getattr(spec, AXES[axis])) for spec in specs))
            for axis, field in self.axes.items()
        }
        return self._begun(going) | chosen | {self._weights: specs[0].weights}

    def _begun(self, going: Sweep) -> dict[Any, Any]:
        cleared: dict[Any, Any] = {
            self.kept: "",
            self.opened: "",
            self.keep_button: gr.update(visible=False),
            self.start_button: gr.update(interactive=False),
            self.stop_button: gr.update(interactive=True),
            **{button: gr.update(visible=False) for button in self.exports.values()},
            self.watched: going,
        }
        return self._now(going) | cleared

    def _now(self, going: Sweep) -> dict[Any, Any]:
        """The status and the map, while a sweep goes on and in the end."""
        cells, forecast, step, share = going.cells, going.forecast(), "Running", 0.0
        running: int | None = None
        match going.doing:
            case _ if going.ended:
                step = "Stopped" if going.stopped else "Done"
                doing = "Start continues with the rest." if going.stopped else many_runs.summary(cells)
            case Timing(place, timing):
                running, share = place, timing.fraction
                doing = f"{escape(str(cells[place].spec.checkpoint))}: {results.doing(timing)}"
            case Waiting(ahead):
                doing = f"Runs ahead of yours: {escape(str(ahead))}."
            case Done():
                doing = ""
            case _:
                step, doing = "Starting", drawn("sweep_status.guess", forecast)
        left = None if going.ended else forecast.seconds
        status = many_runs.status(step, cells, left, doing)
        return {self.status: status, self.map: many_runs.heatmap(cells, running, share)}

    def _end(self, going: Sweep) -> dict[Any, Any]:
        """The end of a sweep, with the table to export."""
        updates: dict[Any, Any] = {
            self.start_button: gr.update(interactive=True),
            self.stop_button: gr.update(interactive=False),
        }
        if (problem := going.outcome()) is not None:
            return updates | {self.status: told(problem)}
        updates |= self._now(going)
        if any(cell.done for cell in going.cells):
            for ending, button in self.exports.items():
                updates[button] = gr.update(value=_file(going.cells, ending), visible=True)
            # on a Space visitors may not change the project's tables
            updates[self.keep_button] = gr.update(visible=not limits.on_space())
        return updates

    def _as_measured(self, shown: Sweep | None, request: gr.Request) -> str:
        """Adds the sweep to the tab of published tables."""
        if shown is None or limits.on_space():
            return ""
        path = attempted(lambda: write_device_table(shown.cells))
        if isinstance(path, Exception):
            return told(path)
        told_where = f"Saved as {path.name}: the tab Published shows it beside the guide's tables."
        return f'<p class="doing">{escape(told_where)}</p>'

    def _open(self, shown: Sweep | None, event: gr.EventData, request: gr.Request) -> str:
        if shown is None or (cell := pressed_of(shown.cells, event)) is None:
            return ""
        if cell.result is None:
            return markdown.escaped(cell.refused)
        return links.opened(cell.result)


def _axis_fields() -> dict[str, gr.Dropdown]:
    """A list for each axis of the grid, in the layout that is open."""
    choices = {
        "checkpoints": [entry.id for entry in sorted(catalog.CHECKPOINTS, key=lambda entry: not entry.bundled)],
        "batch_sizes": ["1", "2", "4", "8", "16", "32", "64"],
        "modes": list(MODES),
        "dtypes": list(DTYPES),
    }
    first = _choices_of(PRESETS["smoke"]) | {"batch_sizes": ["1", "4"]}
    return {
        axis: gr.Dropdown(
            offered,
            value=first[axis],
            label=AXIS_NAMES[axis],
            multiselect=True,
            allow_custom_value=axis == "batch_sizes",
        )
        for axis, offered in choices.items()
    }


def _choices_of(grid: Grid) -> dict[str, list[str]]:
    return {axis: [str(value) for value in getattr(grid, axis)] for axis in AXES}


def _file(cells: Sequence[Cell], ending: str) -> str:
    """The path of the table in the folder from which gradio serves."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sweep{ending}"
        write_table(path, cells)
        return save_bytes_to_cache(path.read_bytes(), path.name, get_upload_folder())
