"""The pre-flight before a talk: one run for each key that starts one, to fill the compile cache and store a verdict.

Not covered: a page that is opened during a pre-flight shows nothing of it.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import gradio as gr
from markupsafe import Markup

from demo.core import format as fmt
from demo.core.machine import HostInfo
from demo.core.options import RunSpec
from demo.core.refusals import on_machine
from demo.present import naming, verdict
from demo.sweep.grid import Cell
from demo.sweep.run_grid import Done, Event, Timing, Waiting, run_one
from demo.ui.jobs import Series, machine_of
from demo.ui.tabs.events import EVENT_OPTIONS, WorkView, error_card
from demo.ui.tabs.form import default_picture
from demo.ui.tabs.live_strip import doing
from demo.ui.tabs.run_tab import RunTab
from demo.ui.templates import render


@dataclass(eq=False)
class PreFlight(Series):
    """One run of each preset (what a key of stage mode starts), with the default picture of its model."""

    names: list[str]
    cells: list[Cell]

    def _events(self) -> Generator[Event, None, None]:
        threads = self.runner.free_threads()
        for place, cell in enumerate(self.cells):
            picture = default_picture(cell.spec.checkpoint)
            yield from run_one(place, cell.spec, self.runner, picture, self._cancel, self._next_turn, threads=threads)

    def _note(self, event: Event) -> None:
        if isinstance(event, Done):
            self.cells[event.place] = event.cell
        super()._note(event)


class PreFlightScreen(WorkView):
    """The button for key 0, and the table that a press of the button shows in the result pane."""

    def __init__(self, run_tab: RunTab, presets: Callable[[HostInfo], dict[str, RunSpec]]) -> None:
        """`presets` returns the settings of each preset on a machine, by the preset's name."""
        self._tab, self._presets = run_tab, presets
        pane, buttons = run_tab.pane, run_tab.form.buttons
        super().__init__(run_tab.works, [pane.live], [pane.live, pane.notice, *buttons])
        self.button = gr.Button("0  Pre-flight", elem_id="preset-0")
        changed = [pane.notice, pane.live, pane.best, *buttons, self.work_shown]
        self._watch_after(self.button.click(self._run, run_tab.visitor, changed, **EVENT_OPTIONS))

    def _run(self, request: gr.Request, visitor: str | None) -> dict[Any, Any]:
        tab = self._tab

        def make(name: str) -> PreFlight:
            machine = machine_of(tab.runner)
            specs = self._presets(machine)
            cells = [Cell(on_machine(spec, machine)) for spec in specs.values()]
            return PreFlight(tab.runner, tab.queue, name, list(specs), cells)

        return self._start(request, visitor, make)

    def _show_refusal(self, card: Markup) -> dict[Any, Any]:
        return self._tab.form.pressable(running=False) | self._tab.pane.show_refusal(card) | {self.work_shown: None}

    def _show_start(self, going: PreFlight) -> dict[Any, Any]:
        running = self._tab.form.pressable(running=True) | self._tab.pane.running(screen(going))
        return running | {self.work_shown: going}

    def _show_progress(self, going: PreFlight) -> dict[Any, Any]:
        return {self._tab.pane.live: screen(going)}

    def _show_end(self, going: PreFlight) -> dict[Any, Any]:
        problem, ready = going.outcome(), self._tab.form.pressable(running=False)
        return ready | (
            self._show_progress(going) if problem is None else self._tab.pane.show_refusal(error_card(problem))
        )


def screen(going: PreFlight) -> Markup:
    """Returns a table as HTML: each preset with its state, its verdict and how long it takes."""
    ready = sum(cell.result is not None and verdict.outcome(cell.result) is not None for cell in going.cells)
    heading = f"Pre-flight: {ready} of {len(going.cells)} ready"
    return render("progress.pre_flight", heading, [_row(going, place) for place in range(len(going.cells))])


def _row(going: PreFlight, place: int) -> tuple[str, str, str]:
    """Returns name, state and facts of preset `place`, from 0: ("1  Segformer", "ready", "2.0× · a run takes 40 s")."""
    cell = going.cells[place]
    name = f"{place + 1}  {going.names[place]}"
    if cell.refused:
        return name, "refused", cell.refused
    if (result := cell.result) is not None:
        if verdict.outcome(result) is None:
            return name, "failed", naming.status(result)
        facts = [verdict.answer(result), f"a run takes {fmt.rounded_duration(result.elapsed_seconds)}"]
        warm = result.compilation.known_costs.get("warm") if result.compilation is not None else None
        if warm is not None:
            facts.append(f"starts in {fmt.duration(warm)} with the kept cache")
        return name, "ready", " · ".join(facts)
    match going.doing:
        case Timing(at, progress) if at == place and not going.ended:
            return name, "now", doing(progress)
        case Waiting(ahead) if not going.ended and place == going.runs_ended:
            return name, "waits", f"Runs ahead of yours: {ahead}."
    return name, "not run" if going.ended else "next", ""
