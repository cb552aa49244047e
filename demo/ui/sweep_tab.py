"""The tab of sweeps: choose a grid, watch it fill, open a cell, stop, go on, take the table away."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from demo import catalog, limits, schema, sweep
from demo import format as fmt
from demo.history import History, HistoryError
from demo.languages import Language
from demo.precompiling import Precompiler
from demo.schema import BadInput, Machine, RunResult
from demo.sweep import Cell, Done, Precompiling, Timing, Waiting
from demo.ui import live, results, runs
from demo.ui.heatmap import OPEN_ON_CLICK, heatmap
from demo.ui.language import label, of, written
from demo.ui.line import Full, Line
from demo.ui.parts import esc
from demo.ui.runs import AnyRunner

STORED_A_CELL, MOST_STORED = 20, 2000
"""Stored runs that are looked at for each cell of a sweep and for all of it, the newest of its checkpoints: what lies
further back is run again. Without a bound a press of Start would read the whole file into the app's memory."""
UPDATE_SECONDS = 1.0
"""Each update takes some 20 ms of cores on which a cell may be timed."""
WAITING_SECONDS = 0.5
MACHINE_SECONDS = 30.0
PICTURE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TO_STAGE = """() => {
  if (window.innerWidth >= 800) return;
  document.getElementById('sweep-stage').scrollIntoView();
}"""

_log = logging.getLogger(__name__)


class SweepTab:
    """Make it inside the `gr.Tab` that shall hold it."""

    def __init__(self, runner: AnyRunner, line: Line, history: History, precompiler: Precompiler | None = None) -> None:
        """`history` is where the runner stores: what it holds is not run again."""
        self._runner = runner
        self._line = line
        self._history = history
        self._precompiler = precompiler
        self._cancels: dict[str, threading.Event] = {}
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
                    list(schema.WEIGHTS),
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
        self._cells = gr.State([])
        self._wire()

    def _wire(self) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        for name, button in self._presets.items():
            grid = sweep.PRESETS[name]
            values = [[str(value) for value in getattr(grid, axis)] for axis in self._axes]
            button.click(lambda values=values: values, None, list(self._axes.values()), **quiet)
        self._start.click(None, js=TO_STAGE, api_visibility="private")
        self._start.click(
            self._run,
            [*self._axes.values(), self._weights, self._fresh],
            [
                *(self._status, self._map, self._kept, self._opened, self._cells, self._start, self._stop, self._keep),
                *self._exports.values(),
            ],
            concurrency_limit=None,  # the line keeps the order, cell by cell
            **quiet,
        )
        self._stop.click(self._cancel, None, self._stop, queue=False, **quiet)
        self._keep.click(self._as_measured, self._cells, self._kept, concurrency_limit=1, **quiet)
        self._map.select(self._open, self._cells, self._opened, concurrency_limit=None, **quiet)

    def _run(self, request: gr.Request, *values: Any) -> Iterator[dict[Any, Any]]:
        """One press of Start; pressed again after a stop it goes on, since what is stored is not run again."""
        session, say = request.session_hash or "", of(request)
        cancel = threading.Event()
        exports = self._exports.values()
        ready = {self._start: gr.update(interactive=True), self._stop: gr.update(interactive=False)}
        cells: list[Cell] = []
        try:
            if self._cancels.setdefault(session, cancel) is not cancel:
                yield {self._status: results.problem("cannot_be_run", "sweep_last", say=say)}
                return
            specs, fresh = self._asked(values)
            machine = self._machine()
            checkpoints = {spec.checkpoint for spec in specs}
            stored = self._history.all(min(STORED_A_CELL * len(specs), MOST_STORED), checkpoints=checkpoints)
            cells = sweep.cells(specs, stored, machine, PICTURE, fresh)
            forecast = sweep.forecast(cells, stored, machine)
            yield {
                self._status: _status("starting", cells, forecast.seconds, _guess(forecast, say), say),
                self._map: heatmap(cells, say=say),
                self._kept: "",
                self._opened: "",
                self._keep: gr.update(visible=False),
                self._cells: cells,
                self._start: gr.update(interactive=False),
                self._stop: gr.update(interactive=True),
                **{button: gr.update(visible=False) for button in exports},
            }
            events = sweep.run(cells, self._runner, PICTURE, cancel, self._precompiler, lambda: self._turn(session))
            with closing(events):
                yield from self._watched(events, cells, stored, machine, say)
            yield ready | self._over(cells, cancel.is_set(), say)
        except (BadInput, HistoryError) as refused:
            yield ready | {self._status: results.refusal("cannot_be_run", fmt.for_a_stranger(str(refused)), say)}
        except Exception:
            _log.exception("a sweep failed inside the page")
            yield ready | {self._status: results.problem(*results.UNEXPECTED, say=say)}
        finally:
            if self._cancels.get(session) is cancel:
                del self._cancels[session]

    def _asked(self, values: Iterable[Any]) -> tuple[tuple[schema.RunSpec, ...], bool]:
        *axes, weights, fresh = values
        given = dict(zip(self._axes, axes, strict=True)) | {"weights": weights, "text": sweep.QUERIES}
        if runs.on_zero_gpu():
            raise BadInput("There is no torch.compile on ZeroGPU. Run this project on a machine of your own.")
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

    @contextmanager
    def _turn(self, session: str) -> Iterator[Iterator[int]]:
        with ExitStack() as left:

            def ahead() -> Iterator[int]:
                while True:
                    try:
                        place = left.enter_context(self._line.join(session))
                        break
                    except Full:  # a sweep that has begun waits for a place rather than ending
                        time.sleep(WAITING_SECONDS)
                        yield limits.current().queue
                while waiting := place.wait(WAITING_SECONDS):
                    yield waiting

            yield ahead()

    def _watched(
        self, events: Iterable[sweep.Event], cells: list[Cell], stored: list[RunResult], machine: Machine, say: Language
    ) -> Iterator[dict[Any, Any]]:
        shown_at = 0.0
        for event in events:
            if isinstance(event, Done):
                cells[event.place] = event.cell
                if event.cell.result is not None:
                    stored.insert(0, event.cell.result)
                yield {
                    self._cells: cells,
                    self._map: heatmap(cells, say=say),
                    self._status: _status("running", cells, sweep.forecast(cells, stored, machine).seconds, "", say),
                }
                continue
            now = time.monotonic()
            if now - shown_at < UPDATE_SECONDS:
                continue
            shown_at = now
            seconds = sweep.forecast(cells, stored, machine).seconds
            if isinstance(event, Timing):
                name = say.value(cells[event.place].spec.checkpoint)
                doing = f"{name}: {live.doing(event.progress, say)}"
                shown = heatmap(cells, event.place, event.progress.fraction, say)
                yield {self._map: shown, self._status: _status("running", cells, seconds, doing, say)}
            elif isinstance(event, Precompiling):
                doing = say.html("sweep_compiling", done=event.done, of=event.of)
                yield {self._status: _status("running", cells, seconds, doing, say)}
            elif isinstance(event, Waiting):
                doing = say.html("sweep_turn", ahead=event.ahead)
                yield {self._status: _status("running", cells, seconds, doing, say)}

    def _over(self, cells: list[Cell], stopped: bool, say: Language) -> dict[Any, Any]:
        """The stage at the end, with the table to take away where there is one."""
        what = say.html("sweep_goes_on") if stopped else _summary(cells, say)
        updates: dict[Any, Any] = {
            self._status: _status("stopped" if stopped else "done", cells, None, what, say),
            self._map: heatmap(cells, say=say),
        }
        if any(cell.done for cell in cells):
            for ending, button in self._exports.items():
                updates[button] = gr.update(value=_file(cells, ending), visible=True)
            # what the project ships is not for strangers to change
            updates[self._keep] = gr.update(visible=not limits.on_space())
        return updates

    def _as_measured(self, cells: list[Cell], request: gr.Request | None = None) -> str:
        """Beside the guide's tables from now on."""
        if limits.on_space():
            return ""
        say = of(request)
        try:
            path = sweep.keep_as_measured(cells)
        except (BadInput, OSError) as refused:
            return f'<p class="doing">{say.quoted(fmt.for_a_stranger(str(refused)))}</p>'
        return f'<p class="doing">{say.html("sweep_kept", name=path.name)}</p>'

    def _open(self, cells: list[Cell], event: gr.EventData, request: gr.Request | None = None) -> str:
        """The run of the cell that was pressed. The place comes from the browser, so it may be anything."""
        place = getattr(event, "place", None)
        if not isinstance(place, int) or not 0 <= place < len(cells):
            return ""
        cell, say = cells[place], of(request)
        if cell.result is None:
            return results.refusal("cannot_be_run", cell.refused, say) if cell.refused else ""
        if cell.result.failure is not None or cell.result.speedup is None:
            return results.failure(cell.result, say) + results.details(cell.result, say)
        told = (part(cell.result, say) for part in (results.headline, results.predictions, results.details))
        return "".join(told)

    def _cancel(self, request: gr.Request) -> Any:
        """Sets the sweep's own event: the cell in hand ends within a second and has no value then."""
        event = self._cancels.get(request.session_hash or "")
        if event is not None:
            event.set()
        return gr.update(interactive=False)


def _opening(say: Language) -> str:
    return (
        f'<section class="question"><p class="kicker">{say.html("sweep_before")}</p>'
        f'<h2 class="display small">{say.html("sweep_question")}</h2>'
        f'<p class="lead">{say.html("sweep_lead")}</p></section>'
    )


def _status(step: str, cells: list[Cell], seconds: float | None, more: str, say: Language) -> str:
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


def _summary(cells: list[Cell], say: Language) -> str:
    verdicts = [cell.result.speedup.verdict for cell in cells if cell.result and cell.result.speedup]
    failed = sum(cell.result is None or cell.result.failure is not None for cell in cells)
    counts = {"faster": verdicts.count("faster"), "slower": verdicts.count("slower")}
    if failed:
        counts["failed"] = failed
    figures = say.listed([say.plain(f"sweep_{what}", count=count) for what, count in counts.items()])
    took = sum(cell.result.elapsed_seconds for cell in cells if cell.result)
    time = say.plain_value(fmt.duration(took))
    return say.marked(say.composed("sweep_summary", figures=figures, time=time))


def _file(cells: list[Cell], ending: str) -> str:
    """The table where gradio serves it from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"sweep{ending}"
        sweep.write_table(path, cells)
        return save_bytes_to_cache(path.read_bytes(), path.name, get_upload_folder())
