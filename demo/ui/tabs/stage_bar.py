"""Stage mode, the page for a talk: the verdict fills the screen, and the buttons of a bar are pressed by keys.

A preset is a run that a key starts. A pre-flight, before the talk, runs every preset once: it fills the compile cache
and stores a verdict of each. Not covered: a page that is opened during a pre-flight does not show it.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

import gradio as gr
from markupsafe import Markup

from ...core import catalog, cores, format as fmt, hub
from ...core.machine import HostInfo
from ...core.options import OptionValues, RunSpec
from ...core.refusals import on_machine
from ...core.result import RunResult
from ...present import naming
from ...present.report import Report
from ...runs.forecast import forecast_sweep
from ...sweep.grid import GridRun
from ...sweep.run_grid import Done, Event, Timing, Waiting, run_one
from ..desk import Desk
from ..look import press
from ..templates import render
from ..works import Series, machine_of
from . import links
from .events import EVENT_OPTIONS, IN_BROWSER, RAW, Updates, WorkView, error_card
from .form import default_picture
from .headline import doing, waits
from .run_tab import MAX_RUNS, RunTab

SEGFORMER = "nvidia/segformer-b0-finetuned-ade-512-512"


def presets(machine: HostInfo | None) -> dict[str, RunSpec]:
    """Returns the runs that the keys 1 to 4 start in stage mode, by name.

    On two cores each takes about a minute at most, without inductor's instruction probe.
    """
    segformer: OptionValues = {"checkpoint": "shapes-segformer"}
    if machine is not None and machine.gpu is not None:
        segformer = {"checkpoint": SEGFORMER, "weights": "pretrained" if hub.can_load(SEGFORMER) else "random"}
    return {
        "Segformer": catalog.make_spec(**segformer),
        "Graph breaks": catalog.make_spec("shapes-vit", graph_break=True),
        "max-autotune": catalog.make_spec("shapes-vit", mode="max-autotune"),
        "Text": catalog.make_spec("shapes-gemma", prompt=catalog.PROMPT),
    }


@dataclass(eq=False)
class PreFlight(Series):
    """Runs every preset once, with its model's default picture. A preset is a run that a key starts in stage mode."""

    names: list[str]
    cells: list[GridRun]
    stored: list[RunResult]
    """Earlier runs, newest first, from which `seconds_left` is estimated."""
    crowd: cores.Crowd = field(default_factory=lambda: cores.crowd())

    @property
    def seconds_left(self) -> float:
        """The seconds that the runs that have not ended are expected to take. The run in progress counts in full."""
        to_run = [cell.spec for cell in self.cells[self.runs_ended :]]
        return forecast_sweep(to_run, self.stored, machine_of(self.runner), self.crowd).seconds

    def _events(self) -> Generator[Event, None, None]:
        threads = self.runner.free_threads()
        for place, cell in enumerate(self.cells):
            picture = default_picture(cell.spec.checkpoint)
            yield from run_one(place, cell.spec, self.runner, picture, self._cancel, self._next_turn, threads=threads)

    def _note(self, event: object) -> None:
        if isinstance(event, Done):
            self.cells[event.place] = event.cell
        super()._note(event)


class StageBar(WorkView[PreFlight]):
    """The bar of buttons at the bottom of stage mode, and the table in the result pane that shows a pre-flight.

    stage.css places the form's buttons Run and Cancel in the bar. stage.js presses a button when its key is typed.
    """

    def __init__(self, desk: Desk, run_tab: RunTab) -> None:
        self._desk = desk
        self._tab, self._form, pane = run_tab, run_tab.form, run_tab.pane
        fields, buttons = list(self._form.inputs.values()), self._form.buttons
        super().__init__(desk.works, [pane.live], [pane.live, pane.notice, *buttons])
        with gr.Row(elem_id="stage-bar"):
            form = [*fields, *self._form.picture_notes]
            for key, name in enumerate(presets(None), 1):
                button = gr.Button(f"{key}  {name}", elem_id=f"preset-{key}")
                filled = button.click(self._fill_form, gr.State(name), form, queue=False, **EVENT_OPTIONS)
                filled.then(js=press("run"), **IN_BROWSER)
            search = gr.Button("5  Best way", elem_id="preset-5")
            search.click(js=press("best"), **IN_BROWSER)
            self.pre_flight = gr.Button("0  Pre-flight", elem_id="preset-0")
            changed = [pane.notice, pane.live, pane.best, *buttons, self.work_shown]
            self._watch_after(self.pre_flight.click(self._run, run_tab.visitor, changed, **EVENT_OPTIONS))
            recorded = gr.Button("S  Recorded", elem_id="preset-s")
            shown = recorded.click(run_tab.show_recorded, [run_tab.visitor, *fields], run_tab.showing, **RAW)
            shown.then(inputs=run_tab.shown_id, js=links.REMEMBER, **IN_BROWSER)
            gr.Markdown("<kbd>D</kbd> dark", elem_id="stage-keys")

    def _fill_form(self, name: str) -> Updates:
        spec = presets(self._desk.runner.machine)[name]
        return links.fill_form(self._form, spec) | self._form.with_picture(default_picture(spec.checkpoint))

    def _run(self, request: gr.Request, visitor: str | None) -> Updates:
        return self._start(request, visitor, self._pre_flight)

    def _pre_flight(self, visitor: str) -> PreFlight:
        machine = machine_of(self._desk.runner)
        specs = presets(machine)
        cells = [GridRun(on_machine(spec, machine)) for spec in specs.values()]
        stored = self._desk.history.all(MAX_RUNS)
        return PreFlight(self._desk.runner, self._desk.queue, visitor, list(specs), cells, stored)

    def _show_refusal(self, card: Markup) -> Updates:
        return self._form.pressable(running=False) | self._tab.pane.show_refusal(card) | {self.work_shown: None}

    def _show_start(self, going: PreFlight) -> Updates:
        running = self._form.pressable(running=True) | self._tab.pane.running(screen(going))
        return running | {self.work_shown: going}

    def _show_progress(self, going: PreFlight) -> Updates:
        return {self._tab.pane.live: screen(going)}

    def _show_end(self, going: PreFlight) -> Updates:
        ready = self._form.pressable(running=False)
        if isinstance(problem := going.take_result(), Exception):
            return ready | self._tab.pane.show_refusal(error_card(problem))
        return ready | self._show_progress(going)


def screen(going: PreFlight) -> Markup:
    """Returns a table as HTML: for each preset its state, its verdict and the duration of a run."""
    ready = sum(cell.result is not None and Report(cell.result).usable for cell in going.cells)
    heading = f"Pre-flight: {ready} of {len(going.cells)} ready"
    if not going.ended:
        heading += f", about {fmt.rounded_duration(going.seconds_left)} left"
    return render("progress.pre_flight", heading, [_row(going, place) for place in range(len(going.cells))])


def _row(going: PreFlight, place: int) -> tuple[str, str, str]:
    """Returns name, state and facts of the preset with index `place`.

    ("1  Segformer", "ready", "2.0× faster · a run takes 40 s")
    """
    cell = going.cells[place]
    name = f"{place + 1}  {going.names[place]}"
    if cell.refused:
        return name, "refused", cell.refused
    if (result := cell.result) is not None:
        report = Report(result)
        if report.kind is None:
            return name, "failed", naming.status_words(result)
        facts = [report.answer, f"a run takes {fmt.rounded_duration(result.elapsed_seconds)}"]
        warm = result.compilation.known_costs.get("warm") if result.compilation is not None else None
        if warm is not None:
            facts.append(f"starts in {fmt.duration(warm)} with the kept cache")
        return name, "ready" if report.usable else "not usable", " · ".join(facts)
    match going.doing:
        case Timing(at, progress) if at == place and not going.ended:
            return name, "now", doing(progress)
        case Waiting(ahead) if not going.ended and place == going.runs_ended:
            return name, "waits", waits(ahead, going.queue)
    return name, "not run" if going.ended else "next", ""
