"""The tab Sweep: runs every combination of some checkpoints, batch sizes, modes and number formats.

Each combination is one run, and one cell of a table and of a heat map.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import gradio as gr
from markupsafe import Markup

from ...core import catalog, format as fmt, limits
from ...core.options import DTYPES, MODES, WEIGHTS, BadInput, OptionValues
from ...present import naming
from ...present.charts import HeatCell, heatmap
from ...present.markdown import escape_markdown
from ...present.report import Report
from ...store.database import HistoryError
from ...sweep.grid import AXES, PICTURE, PRESETS, GridRun, downloads, make_cells, make_specs, write_table
from ...sweep.run_grid import Timing, Waiting
from ..desk import Desk
from ..look import TO_OPEN_RUN, TO_SWEEP
from ..works import Supervisor, Sweep, machine_of, result_or_error
from . import tables
from .events import EVENT_OPTIONS, Updates, WorkView, error_card
from .headline import doing, waits
from .run_tab import RunTab

GRIDS = {"published": "The Transformers guide's 12 models", "smoke": "4 bundled models"}
CHOICES: dict[str, tuple[str, list[str]]] = {
    "checkpoints": (
        "Checkpoints",
        [entry.id for entry in sorted(catalog.CHECKPOINTS, key=lambda entry: not entry.bundled)],
    ),
    "batch_sizes": ("Batch sizes", ["1", "2", "4", "8", "16", "32", "64"]),
    "modes": ("Modes", list(MODES)),
    "dtypes": ("Number formats", list(DTYPES)),
}
"""Maps each list of the form, whose values the sweep combines, to its title and its choices."""
STORED_A_CELL, MAX_STORED = 20, 2000
"""The most stored runs that a sweep reads to reuse them, newest first: `STORED_A_CELL` for each of its runs, but not
more than `MAX_STORED` in total."""
BYTES_A_PARAMETER = 4  # the published weights are float32
OPENING = (
    "## Which models are worth compiling here?\n\nEvery combination of the choices is one run and fills one cell. Runs "
    "go one at a time. Stop at any time: finished cells are stored, and Start continues with the rest."
)


class SweepTab(WorkView[Sweep]):
    """The components of the tab Sweep and their events. Create it inside `with gr.Tab(...)`."""

    def __init__(self, desk: Desk, run_tab: RunTab, tabs: gr.Tabs, tab: gr.Tab) -> None:
        """`run_tab`: shows a run when its row is pressed. `tabs`: all tabs. `tab`: this tab."""
        self._desk, self._run_tab, self.tabs = desk, run_tab, tabs
        with gr.Row(elem_id="sweep-desk", equal_height=False):
            with gr.Column(elem_id="sweep-form", scale=0, min_width=320):
                with gr.Row(elem_id="sweep-presets"):
                    presets = {
                        name: gr.Button(words, size="sm", elem_classes="preset") for name, words in GRIDS.items()
                    }
                first = _choices_of(PRESETS["smoke"]) | {"batch_sizes": ["1", "4"]}
                self.axes = {
                    axis: gr.Dropdown(
                        choices,
                        value=first[axis],
                        label=title,
                        multiselect=True,
                        allow_custom_value=axis == "batch_sizes",
                    )
                    for axis, (title, choices) in CHOICES.items()
                }
                self._weights = gr.Radio(
                    list(WEIGHTS),
                    value="pretrained",
                    label="Weights",
                    info="Random weights: no download, valid timings",
                    elem_classes="segmented",
                )
                self._fresh = gr.Checkbox(False, label="Re-run everything", info="Otherwise finished cells are reused")
                with gr.Column(elem_id="sweep-foot"):
                    self.plan = gr.Markdown("", elem_id="sweep-plan")
                    with gr.Row(elem_id="sweep-actions"):
                        self.start_button = gr.Button("Start", variant="primary", elem_id="sweep-start")
                        self.stop_button = gr.Button("Stop", interactive=False, elem_id="sweep-stop")
            with gr.Column(elem_id="sweep-stage", min_width=320):
                self.status = gr.Markdown(OPENING, elem_id="sweep-status")
                self.map = gr.Plot(visible=False, show_label=False, elem_id="sweep-map")
                self.table = tables.make_table("sweep-table", "Cells; press a row to open its run")
                with gr.Row(elem_id="sweep-exports"):
                    self.exports = {
                        ending: gr.DownloadButton(f"Export {ending[1:].upper()}", visible=False, size="sm")
                        for ending in (".csv", ".json")
                    }
                self.message = gr.Markdown("", elem_id="sweep-message")
        cells, buttons = [self.map, self.table], [self.start_button, self.stop_button]
        ending = [self.status, *cells, *buttons, *self.exports.values()]
        super().__init__(Supervisor(), [self.status, *cells], ending)
        self._beginning = [*self._ending, self.message, self.work_shown]
        self._wire(tab, presets)

    def arrive(self, blocks: gr.Blocks) -> None:
        """Connects the event that shows the visitor's sweep when the page `blocks` opens."""
        outputs = [*self._beginning, *self.axes.values(), self._weights]
        self._watch_after(blocks.load(self._arrive, self._run_tab.visitor, outputs, **EVENT_OPTIONS))

    def _wire(self, tab: gr.Tab, presets: dict[str, gr.Button]) -> None:
        fields: list[gr.Dropdown | gr.Radio | gr.Checkbox] = [*self.axes.values(), self._weights, self._fresh]
        run_tab, visitor = self._run_tab, self._run_tab.visitor
        choices = [tab.select, *(field.change for field in fields)]
        planned = [self.plan, self.map, self.table]
        preview_inputs = [self.work_shown, *fields]
        gr.on(choices, self._preview, preview_inputs, planned, trigger_mode="always_last", **EVENT_OPTIONS)
        for name, button in presets.items():
            values = list(_choices_of(PRESETS[name]).values())
            button.click(lambda values=values: values, None, list(self.axes.values()), **EVENT_OPTIONS)
        self.start_button.click(None, js=TO_SWEEP, api_visibility="private")
        begun = self.start_button.click(self._run, [visitor, *fields], self._beginning, **EVENT_OPTIONS)
        self._watch_after(begun).then(self._plan, fields, self.plan, **EVENT_OPTIONS)
        self.stop_button.click(self._cancel, visitor, self.stop_button, queue=False, **EVENT_OPTIONS)
        opening = [self.tabs, self.message, run_tab.row_run_id, *run_tab.showing]
        opened = self.table.select(self._open, visitor, opening, **EVENT_OPTIONS)
        opened.then(None, run_tab.row_run_id, js=TO_OPEN_RUN, api_visibility="private")

    def _run(self, request: gr.Request, visitor: str | None, *values: object) -> Updates:
        """Starts a sweep, or continues one that was stopped."""
        return self._start(request, visitor, lambda name: self._sweep(values, name))

    def _show_refusal(self, card: Markup) -> Updates:
        return {self.status: card, self.work_shown: None}

    def _sweep(self, values: Iterable[object], visitor: str = "") -> Sweep:
        """Returns the sweep that `values` ask for, without starting it. Raises BadInput or HistoryError."""
        *axes, weights, fresh = values
        settings = {"weights": weights, "text": catalog.QUERIES, "prompt": catalog.PROMPT}
        specs = make_specs(dict(zip(self.axes, axes, strict=True)) | settings)
        if len(specs) > (max_cells := limits.current().sweep_cells):
            raise BadInput(
                f"A sweep from this page has at most {max_cells} cells. Given: {len(specs)}. Choose fewer, or run the "
                f"sweep on a machine of your own; {limits.VARIABLES['sweep_cells']} sets the limit."
            )
        desk, checkpoints = self._desk, {spec.checkpoint for spec in specs}
        stored = desk.history.all(min(STORED_A_CELL * len(specs), MAX_STORED), checkpoints=checkpoints)
        cells = make_cells(specs, stored, machine_of(desk.runner), PICTURE, bool(fresh))
        return Sweep(desk.runner, desk.queue, visitor, cells, stored)

    def _preview(self, going: Sweep | None, *values: object) -> Updates:
        """Returns updates that show the plan of the sweep.

        If the page shows no sweep yet, they also show the runs that the planned sweep would do.
        """
        updates: Updates = {self.plan: self._plan(*values)}
        if going is None:
            planned = result_or_error(lambda: self._sweep(values))
            updates |= self._show_cells(planned) if isinstance(planned, Sweep) else {}
        return updates

    def _plan(self, *values: object) -> str:
        """Returns, as Markdown, how many runs the sweep has, how long they will take, and what has to be downloaded.

        Returns the reason instead if the chosen values are refused.
        """
        try:
            sweep = self._sweep(values)
        except (BadInput, HistoryError) as refused:
            return tables.status_line(fmt.redact(str(refused)))
        missing, forecast = downloads(sweep.cells), sweep.forecast()
        stored = sum(cell.done for cell in sweep.cells)
        lines = [f"**Cells: {len(sweep.cells)}. Stored already: {stored}. To run: {forecast.cells}.**"]
        if forecast.cells:
            lines.append(f"Time: about {fmt.rounded_duration(forecast.seconds)}.")
        if missing:
            size = fmt.size(sum(entry.parameters for entry in missing) * BYTES_A_PARAMETER)
            lines.append(f"Checkpoints to download: {len(missing)}, about {size}.")
        if forecast.guessed:
            cells = f"{forecast.guessed} of {forecast.cells} cells"
            lines.append(f"The time of {cells} is a rough guess: nothing like them was run here.")
        return "\n\n".join(lines)

    def _arrive(self, request: gr.Request, visitor: str | None) -> Updates:
        """Returns updates that show the visitor's sweep when a page opens.

        A sweep that has ended is shown only if no page has shown its end before.
        """
        going = self.work_of(request, visitor)
        if not isinstance(going, Sweep) or (going.ended and going.delivered):
            return {self.work_shown: None}
        # fills in the choices that made the cells, so that Start continues this sweep
        specs = [cell.spec for cell in going.cells]
        choices = {
            field: list(dict.fromkeys(str(getattr(spec, AXES[axis])) for spec in specs))
            for axis, field in self.axes.items()
        }
        return self._show_start(going) | choices | {self._weights: specs[0].weights}

    def _show_start(self, going: Sweep) -> Updates:
        cleared: Updates = {
            **self._pressable(running=True),
            self.message: "",
            **{button: gr.update(visible=False) for button in self.exports.values()},
            self.work_shown: going,
        }
        return self._show_progress(going) | self._show_cells(going) | cleared

    def _pressable(self, running: bool) -> Updates:
        return {
            self.start_button: gr.update(interactive=not running),
            self.stop_button: gr.update(interactive=running),
        }

    def _show_progress(self, going: Sweep) -> Updates:
        cells, forecast, step = going.cells, going.forecast(), "Running"
        match going.doing:
            case _ if going.ended:
                step = "Stopped" if going.stopped else "Done"
                now = "Start continues with the rest, unless it re-runs everything." if going.stopped else ""
            case Timing(place, timing):
                late = naming.longer_than(timing)
                now = f"{escape_markdown(cells[place].spec.checkpoint)}: {doing(timing)}{late and f', {late}'}"
            case Waiting(ahead):
                now = waits(ahead, going.queue)
            case _:
                now = ""
        done = sum(cell.done for cell in cells)
        so_far = f"{step}: {done} of {len(cells)} cells finished"
        if not going.ended and done < len(cells) and forecast.seconds:
            so_far += f", about {fmt.rounded_duration(forecast.seconds)} to go"
        return {self.status: f"### {so_far}\n\n{now}"}

    def _show_cells(self, going: Sweep) -> Updates:
        cells = list(going.cells)  # a copy: another thread changes the list, and map and table must agree
        figure = heatmap(list(map(_heat, cells)))
        return {self.map: tables.plot(figure), self.table: tables.update(map(_row, cells))}

    def _show_end(self, going: Sweep) -> Updates:
        updates = self._pressable(running=False)
        if isinstance(problem := going.take_result(), Exception):
            return updates | {self.status: error_card(problem)}
        updates |= self._show_progress(going) | self._show_cells(going)
        if any(cell.done for cell in going.cells):
            for ending, button in self.exports.items():
                updates[button] = gr.update(value=_file(going.cells, ending), visible=True)
        return updates

    def _open(self, visitor: str | None, event: gr.SelectData, request: gr.Request) -> Updates:
        id = event.row_value[-1]
        if not id:
            none = tables.status_line("This cell has no run to open.")
            return {self.message: none, self._run_tab.row_run_id: ""}
        return self._run_tab.open_from(self.tabs, self.message, id, request, visitor)


def _heat(cell: GridRun) -> HeatCell:
    spec, group = cell.spec, f"{cell.spec.mode}, {cell.spec.dtype}"
    return HeatCell(group, naming.short(spec.checkpoint), f"batch {spec.batch_size}", *map_text(cell))


def map_text(cell: GridRun) -> tuple[str, float | None]:
    """Returns the text of one run in the heat map, and the speed-up that sets the colour of its field: ("1.44×", 1.44).

    The speed-up is None (no colour) unless the verdict is 'faster' or 'slower'.
    """
    if cell.result is None:
        return ("refused" if cell.refused else "·"), None
    if cell.result.failure is not None:
        return ("OOM" if cell.result.status == "out_of_memory" else "failed"), None
    report = Report(cell.result)
    if report.speedup is None or not report.decided:
        return ("≈ 1×" if report.kind == "same" else "unsure"), None
    return report.ratio, report.speedup.ratio


def _row(cell: GridRun) -> dict[str, object]:
    spec, result = cell.spec, cell.result
    report = Report(result) if result is not None else None
    _, ratio = map_text(cell)
    state = "to run" if not cell.done else "stored already" if cell.stored else "finished"
    return {
        "Checkpoint": tables.bold(spec.checkpoint),
        "Batch": spec.batch_size,
        "Mode": spec.mode,
        "Number format": spec.dtype,
        "Result": tables.verdict_cell(report, ratio, cell.value or tables.UNKNOWN),
        **tables.latency_cells(result),
        "State": "refused" if cell.refused else state,
        "Id": result.id if result is not None else "",
    }


def _choices_of(preset: OptionValues) -> dict[str, list[str]]:
    return {axis: [str(value) for value in preset[axis]] for axis in AXES}


def _file(cells: Sequence[GridRun], ending: str) -> str:
    """Writes a table of the sweep's runs and returns the path of the file. `ending`: ".csv" or ".json"."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sweep{ending}"
        write_table(path, cells)
        return tables.download_file(path.read_bytes(), path.name)
