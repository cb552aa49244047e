"""Film the race of eager against compiled, for the README and talks, and take the pictures of the page.

python -m tools.race_film                     write race.gif, page.png and preview.png into assets/screenshots

The first preset of stage mode is run, for real, while no browser is open, and every state of its timing is kept. Then
the page is opened with a runner that shows those states again, one by one, and Chromium takes a picture of each. So
filming does not disturb the figures, and each frame of the film lasts as long as its state did. The film leaves out
what comes before and after the timing. Let nothing else run meanwhile.
"""

import io
import itertools
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks import served
from demo.core import catalog
from demo.core.machine import HostInfo
from demo.core.result import Progress, RunResult
from demo.runs.runner import Runner
from demo.store.history import FILE_NAME, History
from demo.ui.page import Page, launch, presets
from demo.ui.tabs.form import default_picture

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "screenshots"
FILM, PAGE, PREVIEW = FOLDER / "race.gif", FOLDER / "page.png", FOLDER / "preview.png"
STAGE, SCALE = {"width": 1280, "height": 720}, 0.75
"""The window of the film, and pixels of the film for each of it."""
WINDOW, PREVIEW_HEIGHT = {"width": 1440, "height": 1700}, 756
"""The window of the page's picture, which ends below what the model sees, and how much of it a shared link shows."""
COLOURS = 128
END_SECONDS, ANSWER_SECONDS = 0.5, 3.5
"""How long the end of the race and the answer stand."""

Event = Progress | RunResult


class Replay:
    """A runner that yields the events of a run that is over, each when `show_next` is called."""

    def __init__(self, machine: HostInfo, events: Sequence[Event]) -> None:
        self.machine: HostInfo | None = machine
        self._events = events
        self._asked = threading.Semaphore(0)

    def show_next(self) -> None:
        self._asked.release()

    def run(self, *asked: Any, **named: Any) -> Generator[Event, None, None]:
        for event in self._events:
            self._asked.acquire()
            yield event

    def close(self) -> None:
        """There is nothing to end."""


def race(events: Sequence[Event]) -> list[Progress]:
    """The states of the timing, each once: those with more calls than the one before."""
    found: list[Progress] = []
    for event in events:
        if isinstance(event, Progress) and event.phase == "time" and event.calls > (found[-1].calls if found else 0):
            found.append(event)
    return found


def stays(states: Sequence[Progress]) -> list[float]:
    """Seconds for which each frame stays: until the next state came. The last two are the race's end and the answer."""
    times = [state.elapsed_seconds for state in states]
    return [*(after - before for before, after in itertools.pairwise(times)), END_SECONDS, ANSWER_SECONDS]


def write_gif(frames: Sequence[Image.Image], seconds: Sequence[float], path: Path) -> None:
    """An endless GIF. All frames share one palette, made of the first and the last, so that nothing flickers."""
    width, height = frames[0].size
    sheet = Image.new("RGB", (width, 2 * height))
    for place, frame in enumerate((frames[0], frames[-1])):
        sheet.paste(frame, (0, place * height))
    palette = sheet.quantize(COLOURS, dither=Image.Dither.NONE)
    first, *others = (frame.convert("RGB").quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
    milliseconds = [round(100 * stay) * 10 for stay in seconds]  # a GIF counts hundredths of a second
    first.save(path, save_all=True, append_images=others, duration=milliseconds, loop=0)


def measure(history: History) -> tuple[HostInfo, list[Event]]:
    """A real run of the preset. Raises RuntimeError if it ends without a figure."""
    spec = catalog.make_spec(**presets(gpu=False)[0], device="cpu")
    with closing(Runner(history)) as runner:
        events = list(runner.run(spec, default_picture(spec.checkpoint)))
        result, machine = events[-1], runner.machine
    if not isinstance(result, RunResult) or result.speedup is None or machine is None:
        raise RuntimeError(f"The run gave no figure: {result}")
    return machine, events


def film(tab: Any, replay: Replay, states: Sequence[Progress]) -> list[Image.Image]:
    """A picture of each state and of the answer, without the bar below them."""
    from playwright.sync_api import expect

    tab.locator("[data-stage=on]").click()
    tab.keyboard.press("1")
    tab.locator("#stage-words .chosen").wait_for()
    above = {"x": 0, "y": 0, "width": STAGE["width"], "height": tab.locator("#stage-bar").bounding_box()["y"]}

    def frame() -> Image.Image:
        return Image.open(io.BytesIO(tab.screenshot(clip=above))).convert("RGB")

    frames = []
    tab.locator("#run").click()
    for state in states:
        replay.show_next()
        expect(tab.locator(".lane .counters b").first).to_have_text(str(state.calls))
        frames.append(frame())
    replay.show_next()
    tab.locator("#top .headline").wait_for()
    tab.wait_for_timeout(1000)  # its pictures are decoded
    return [*frames, frame()]


def pictures(tab: Any) -> None:
    """Of the page with the answer, where the film has ended."""
    tab.keyboard.press("Escape")
    tab.evaluate("document.activeElement.blur()")
    tab.set_viewport_size(WINDOW)
    tab.wait_for_timeout(1000)  # plotly draws to the new width
    seen = tab.locator("#seen").bounding_box()
    for path, height in ((PAGE, seen["y"] + seen["height"] + 24), (PREVIEW, PREVIEW_HEIGHT)):
        tab.screenshot(path=path, clip={"x": 0, "y": 0, "width": WINDOW["width"], "height": height})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / FILE_NAME)
        machine, events = measure(history)
        states = race(events)
        replay: Any = Replay(machine, [*states, events[-1]])
        page = Page(replay, history=history)
        _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True)
        with served.chromium() as browser:
            tab = browser.new_page(viewport=STAGE, device_scale_factor=SCALE)
            tab.goto(address)
            tab.locator("#chart .plot-container").wait_for()
            write_gif(film(tab, replay, states), stays(states), FILM)
            pictures(tab)
        page.close(verbose=False)
    print(f"{FILM.name}: {len(states) + 1} frames, {sum(stays(states)):.1f} s, {FILM.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
