"""The tab of sweeps: choose a grid, watch it fill, open a cell, stop, go on, take the table away."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from demo.core import catalog, limits
from demo.core import format as fmt
from demo.core import result as schema
from demo.core.languages import Language
from demo.core.result import BadInput, Machine
from demo.runs.precompiler import Precompiler
from demo.store.history import History, HistoryError
from demo.sweep import grid as sweep
from demo.sweep.grid import PICTURE, Cell, Precompiling, Timing, Waiting
from demo.ui import runs
from demo.ui.html import progress as live
from demo.ui.html import results
from demo.ui.html.elements import esc
from demo.ui.html.heatmap import OPEN_ON_CLICK, heatmap
from demo.ui.jobs.jobs import Broken, Refused
from demo.ui.jobs.queue import Line
from demo.ui.jobs.sweeps import Sweep, Sweeps
from demo.ui.runs import AnyRunner
from demo.ui.tabs import form
from demo.ui.tabs.run import RunTab
from demo.ui.web.visitor_language import label, of, written

STORED_A_CELL, MOST_STORED = 20, 2000
"""Stored runs that are looked at for each cell of a sweep and for all of it, the newest of its checkpoints: what lies
further back is run again. Without a bound a press of Start would read the whole file into the app's memory."""
MACHINE_SECONDS = 30.0
TO_STAGE = """() => {
  if (window.innerWidth > 800) window.scrollTo(0, 0);
  else document.getElementById('sweep-stage').scrollIntoView();
}"""

_log = logging.getLogger(__name__)


class SweepTab:
    """Make it inside the `gr.Tab` that shall hold it."""

    def __init__(
        self,
        runner: AnyRunner,
        line: Line,
        history: History,
        run_tab: RunTab,
        precompiler: Precompiler | None = None,
    ) -> None:
        """`history` is where the runner stores: what it holds is not run again. `run_tab` knows its visitors."""
        self._runner = runner
        self._history = history
        self._run_tab = run_tab
        self._sweeps = Sweeps(runner, line, precompiler)
        can_run = not runs.on_zero_gpu()
        smoke = sweep.PRESETS["smoke"]
        with gr.Row(elem_id="sweep-desk", equal_height=False):
            with gr.Column(elem_id="sweep-form", scale=0, min_width=320):
                self._axes = {
                    "checkpoints": gr.Dropdown(
                        [entry.id for entry in sorted(catalog.CHECKPOINTS, key=lambda entry: not entry.bundled)],
                        value=list(smoke.checkpoints),
                        label=label("checkpoints"),
                        multiselect=True,
                        allow_custom_value=False,
                    ),
                    "batch_sizes": gr.Dropdown(
                        ["1", "2", "4", "8", "16", "32", "64"],
                        value=["1", "4"],
                        label=label("batch_sizes"),
                        multiselect=True,
                        allow_custom_value=True,
                    ),
                    "modes": gr.Dropdown(list(schema.MODES), value=["default"], label=label("modes"), multiselect=True),
                    "dtypes": gr.Dropdown(
                        list(schema.DTYPES), value=["float32"], label=label("dtypes"), multiselect=True
                    ),
                }
                self._weights = gr.Radio(
                    form.choices(schema.WEIGHTS),
                    value="pretrained",
                    label=label("weights"),
                    info=label("sweep_weights_info"),
                    elem_classes="segmented",
                )
                self._fresh = gr.Checkbox(False, label=label("anew"), info=label("anew_info"))
                self._presets = {
                    name: gr.Button(label(f"grid_{name}"), size="sm", elem_classes="preset")
                    for name in ("published", "smoke")
                }
                with gr.Row(elem_id="sweep-actions"):
                    self._start = gr.Button(
                        label("start"), variant="primary", interactive=can_run, elem_id="sweep-start"
                    )
                    self._stop = gr.Button(label("stop"), interactive=False, elem_id="sweep-stop")
            with gr.Column(elem_id="sweep-stage", min_width=320):
                opening = written(_opening if can_run else lambda say: say.passage(results.zero_gpu()))
                self._status = gr.HTML(opening, elem_id="sweep-status", apply_default_css=False)
                self._map = gr.HTML("", elem_id="sweep-map", apply_default_css=False, js_on_load=OPEN_ON_CLICK)
                with gr.Row(elem_id="sweep-exports"):
                    self._exports = {
                        ending: gr.DownloadButton(
                            label(f"table_as{ending.replace('.', '_')}"), visible=False, size="sm"
                        )
                        for ending in (".csv", ".json")
                    }
                    self._keep = gr.Button(label("add_to_published"), visible=False, size="sm", elem_id="sweep-keep")
                self._kept = gr.HTML("", elem_id="sweep-kept", apply_default_css=False)
                self._opened = gr.HTML("", elem_id="sweep-opened", apply_default_css=False)
        self._watched = gr.State(None)  # the sweep that this page shows
        self._wire()

    def arrive(self, blocks: gr.Blocks) -> None:
        """To be called once, for the page that holds this tab: a sweep that its visitor has begun is shown again."""
        arrived = blocks.load(
            self._arrive,
            self._run_tab.visitor,
            self._changed_by_a_start,
            show_progress="hidden",
            api_visibility="private",
            concurrency_limit=None,
        )
        self._watch_after(arrived)

    @property
    def _changed_by_a_start(self) -> list[gr.components.Component]:
        stage = [self._status, self._map, self._kept, self._opened]
        return [*stage, self._start, self._stop, self._keep, *self._exports.values(), self._watched]

    def _wire(self) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        for name, button in self._presets.items():
            grid = sweep.PRESETS[name]
            values = [[str(value) for value in getattr(grid, axis)] for axis in self._axes]
            button.click(lambda values=values: values, None, list(self._axes.values()), **quiet)
        self._start.click(None, js=TO_STAGE, api_visibility="private")
        begun = self._start.click(
            self._run,
            [self._run_tab.visitor, *self._axes.values(), self._weights, self._fresh],
            self._changed_by_a_start,
            concurrency_limit=None,  # the line keeps the order, cell by cell
            **quiet,
        )
        self._watch_after(begun)
        self._stop.click(self._cancel, self._run_tab.visitor, self._stop, queue=False, **quiet)
        self._keep.click(self._as_measured, self._watched, self._kept, concurrency_limit=1, **quiet)
        self._map.select(self._open, self._watched, self._opened, concurrency_limit=None, **quiet)

    def _watch_after(self, event: Any) -> None:
        """What the stage shows once `event` has made this page watch a sweep."""
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        stage = [self._status, self._map]
        event.then(self._follow, self._watched, stage, **quiet).then(
            self._over, self._watched, [*stage, self._start, self._stop, self._keep, *self._exports.values()], **quiet
        )

    def _run(self, request: gr.Request, visitor: str | None, *values: Any) -> dict[Any, Any]:
        """One press of Start; pressed again after a stop it goes on, since what is stored is not run again."""
        say, name = of(request), self._run_tab.name(request, visitor)
        if self._sweeps.is_running(name):
            return {self._status: results.problem("cannot_be_run", "sweep_last", say=say), self._watched: None}
        try:
            specs, fresh = self._asked(values)
            machine = self._machine()
            checkpoints = {spec.checkpoint for spec in specs}
            stored = self._history.all(min(STORED_A_CELL * len(specs), MOST_STORED), checkpoints=checkpoints)
            new = Sweep(sweep.cells(specs, stored, machine, PICTURE, fresh), stored, machine)
            self._sweeps.start(name, new, PICTURE)
        except (BadInput, HistoryError) as refused:
            return self._refused(Refused(str(refused)), say)
        except Exception:
            _log.exception("a sweep could not be started")
            return self._refused(Broken(), say)
        return self._begun(new, say)

    def _arrive(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        """A page has opened: it shows its visitor's sweep that still goes on, or has ended unseen."""
        going = self._sweeps.of(self._run_tab.name(request, visitor))
        if going is None or (going.ended and going.delivered):
            return {self._watched: None}
        return self._begun(going, of(request))

    def _begun(self, going: Sweep, say: Language) -> dict[Any, Any]:
        forecast = going.forecast()
        return {
            self._status: _status("starting", going.cells, forecast.seconds, _guess(forecast, say), say),
            self._map: heatmap(going.cells, say=say),
            self._kept: "",
            self._opened: "",
            self._keep: gr.update(visible=False),
            self._start: gr.update(interactive=False),
            self._stop: gr.update(interactive=True),
            **{button: gr.update(visible=False) for button in self._exports.values()},
            self._watched: going,
        }

    def _refused(self, problem: Refused | Broken, say: Language) -> dict[Any, Any]:
        if isinstance(problem, Refused):
            told = results.refusal("cannot_be_run", fmt.for_a_stranger(problem.sentence), say)
        else:
            told = results.problem(*results.UNEXPECTED, say=say)
        return self._ready | {self._status: told, self._watched: None}

    @property
    def _ready(self) -> dict[Any, Any]:
        return {self._start: gr.update(interactive=True), self._stop: gr.update(interactive=False)}

    def _asked(self, values: Iterable[Any]) -> tuple[tuple[schema.RunSpec, ...], bool]:
        *axes, weights, fresh = values
        given = dict(zip(self._axes, axes, strict=True)) | {"weights": weights, "text": sweep.QUERIES}
        runs.refuse_on_zero_gpu()
        specs = sweep.read_grid(given, "The sweep").specs()
        if len(specs) > (most := limits.current().sweep_cells):
            raise BadInput(
                f"A sweep from this page has at most {most} cells. Given: {len(specs)}. Choose fewer, or run the sweep "
                f"on a machine of your own; {limits.variable('sweep_cells')} sets the limit."
            )
        return specs, bool(fresh)

    def _machine(self) -> Machine:
        """What the waiting worker says of the machine: without it nobody knows what is stored already."""
        deadline = time.monotonic() + MACHINE_SECONDS
        while (machine := self._runner.machine) is None:
            if time.monotonic() > deadline:
                raise BadInput("The process that runs models has not started yet. Try again in a moment.")
            time.sleep(0.2)
        return machine

    def _follow(self, request: gr.Request, going: Sweep | None) -> Iterator[tuple[Any, Any]]:
        """The status and the map while a sweep goes on. Whoever stops watching ends nothing."""
        if going is None:
            yield gr.skip(), gr.skip()  # gradio empties the outputs of a handler that yields nothing
            return
        say = of(request)
        for _ in going.watch():
            running: int | None = None
            share, doing = 0.0, ""
            match going.doing:
                case Timing(running, progress):
                    share = progress.fraction
                    doing = f"{say.value(going.cells[running].spec.checkpoint)}: {live.doing(progress, say)}"
                case Precompiling(done, of_all):
                    doing = say.html("sweep_compiling", done=done, of=of_all)
                case Waiting(ahead):
                    doing = say.html("sweep_turn", ahead=ahead)
            status = _status("running", going.cells, going.forecast().seconds, doing, say)
            yield status, heatmap(going.cells, running, share, say)

    def _over(self, request: gr.Request, going: Sweep | None) -> dict[Any, Any]:
        """The stage at the end, with the table to take away where there is one; nothing where the connection broke."""
        if going is None or not going.ended:
            return {self._status: gr.skip()}
        going.delivered = True
        say, cells = of(request), going.cells
        if going.problem is not None:
            return {part: told for part, told in self._refused(going.problem, say).items() if part is not self._watched}
        what = say.html("sweep_goes_on") if going.stopped else _summary(cells, say)
        updates = self._ready | {
            self._status: _status("stopped" if going.stopped else "done", cells, None, what, say),
            self._map: heatmap(cells, say=say),
        }
        if any(cell.done for cell in cells):
            for ending, button in self._exports.items():
                updates[button] = gr.update(value=_file(cells, ending), visible=True)
            # what the project ships is not for strangers to change
            updates[self._keep] = gr.update(visible=not limits.on_space())
        return updates

    def _as_measured(self, shown: Sweep | None, request: gr.Request | None = None) -> str:
        """Beside the guide's tables from now on."""
        if shown is None or limits.on_space():
            return ""
        say = of(request)
        try:
            path = sweep.keep_as_measured(shown.cells)
        except (BadInput, OSError) as refused:
            return f'<p class="doing">{say.quoted(fmt.for_a_stranger(str(refused)))}</p>'
        return f'<p class="doing">{say.html("sweep_kept", name=path.name)}</p>'

    def _open(self, shown: Sweep | None, event: gr.EventData, request: gr.Request | None = None) -> str:
        """The run of the cell that was pressed. The place comes from the browser, so it may be anything."""
        place, cells = getattr(event, "place", None), shown.cells if shown else ()
        if not isinstance(place, int) or not 0 <= place < len(cells):
            return ""
        cell, say = cells[place], of(request)
        if cell.result is None:
            return results.refusal("cannot_be_run", cell.refused, say) if cell.refused else ""
        if cell.result.failure is not None or cell.result.speedup is None:
            return results.failure(cell.result, say) + results.details(cell.result, say)
        told = (part(cell.result, say) for part in (results.headline, results.predictions, results.details))
        return "".join(told)

    def _cancel(self, request: gr.Request, visitor: str | None) -> Any:
        going = self._sweeps.of(self._run_tab.name(request, visitor))
        if going is not None:
            going.cancel()
        return gr.update(interactive=False)


def _opening(say: Language) -> str:
    return (
        f'<section class="question"><p class="kicker">{say.html("sweep_before")}</p>'
        f'<h2 class="display small">{say.html("sweep_question")}</h2>'
        f'<p class="lead">{say.html("sweep_lead")}</p></section>'
    )


def _status(step: str, cells: Sequence[Cell], seconds: float | None, more: str, say: Language) -> str:
    """`step` ends a key, `more` is HTML."""
    done, of_all = sum(cell.done for cell in cells), len(cells)
    share = done / of_all if cells else 0.0
    known: dict[str, object] = {"done": done, "of": of_all}
    if seconds and done < of_all:
        told = say.html("sweep_cells_to_go", time=fmt.duration(seconds), **known)
    else:
        told = say.html("sweep_cells", **known)
    return (
        f'<section class="sweep-status"><p class="kicker">{say.html(f"sweep_{step}")}</p>'
        f'<p class="so-far">{told}</p>'
        f'<div class="progress" role="progressbar" aria-label="{esc(say.plain("sweep_progress"))}" aria-valuemin="0" '
        f'aria-valuemax="{of_all}" aria-valuenow="{done}"><i style="width:{share * 100:.1f}%"></i></div>'
        f'<p class="doing">{more}&nbsp;</p></section>'
    )


def _guess(forecast: sweep.Forecast, say: Language) -> str:
    if not forecast.guessed:
        return ""
    return say.html("sweep_guess", guessed=forecast.guessed, cells=forecast.cells)


def _summary(cells: Sequence[Cell], say: Language) -> str:
    verdicts = [cell.result.speedup.verdict for cell in cells if cell.result and cell.result.speedup]
    failed = sum(cell.result is None or cell.result.failure is not None for cell in cells)
    counts = {"faster": verdicts.count("faster"), "slower": verdicts.count("slower")}
    if failed:
        counts["failed"] = failed
    figures = say.listed([say.plain(f"sweep_{what}", count=count) for what, count in counts.items()])
    took = sum(cell.result.elapsed_seconds for cell in cells if cell.result)
    time = say.plain_value(fmt.duration(took))
    return say.marked(say.composed("sweep_summary", figures=figures, time=time))


def _file(cells: Sequence[Cell], ending: str) -> str:
    """The table where gradio serves it from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sweep{ending}"
        sweep.write_table(path, cells)
        return save_bytes_to_cache(path.read_bytes(), path.name, get_upload_folder())
