"""The verdict, its ruler and the card of a failure: their HTML, in which any text from outside is escaped."""

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

from support.page_support import HOSTILE, Tags
from support.samples import failed_result, full_result, ok_result

from demo.core import format as fmt
from demo.core.caveat import Caveat, note
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import GraphBreak
from demo.core.outputs import ImageInfo, Label, Predictions
from demo.core.progress import Progress
from demo.core.record import Failure
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.present import naming, verdict
from demo.ui.tabs import tables
from demo.ui.tabs.headline import failure, headline, intro, problem, ruler
from demo.ui.tabs.live_strip import strip
from demo.ui.templates import render

QUOTED = f"""{HOSTILE} "quoted" 'one' &amp;"""
TEMPLATES = Path(__file__).parents[3] / "demo" / "ui" / "templates"


def test_a_text_from_outside_stays_one_text_in_an_attribute_and_between_tags() -> None:
    seen: list[tuple[str, list[tuple[str, str | None]]]] = []
    told: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            told.append(data)

    reader = Reader()
    reader.feed(tables.status(QUOTED))
    reader.feed(render("elements.lane", QUOTED, QUOTED))
    reader.close()
    assert [tag for tag, _ in seen] == ["p", "span", "i"] and ("class", f"lane-name {QUOTED}") in seen[1][1]
    assert "".join(told) == QUOTED * 2


def test_no_template_calls_a_text_safe_each_attribute_is_quoted_and_each_function_that_is_called_is_there() -> None:
    templates = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.html")]
    assert templates and not any(re.search(r"\|\s*safe|autoescape|=\s*\{\{", text) for text in templates)
    for module, name in re.findall(r"\b(fmt|naming|verdict)\.(\w+)", "".join(templates)):
        assert hasattr({"fmt": fmt, "naming": naming, "verdict": verdict}[module], name)


def test_of_many_caveats_the_most_important_stands_beside_the_answer() -> None:
    caveats = (Caveat("random_weights"), Caveat("breaks", {"breaks": 2, "graphs": 3}), Caveat("no_graph"))
    html = headline(ok_result(caveats=caveats))
    assert str(caveats[2]) in html and not any(str(one) in html for one in caveats[:2])


def test_texts_from_models_files_and_errors_cannot_become_html() -> None:
    hostile, bad = Predictions(labels=(Label(HOSTILE, 0.9),)), (GraphBreak(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE),)
    good = full_result()
    result = dataclasses.replace(
        good,
        id=HOSTILE,
        predictions={"eager": hostile, "compiled": hostile},
        image=ImageInfo(HOSTILE, 1, 1, "00", f'"{HOSTILE}'),
        caveats=(note(HOSTILE),),
        compilation=dataclasses.replace(
            good.compilation, graph_breaks=bad, recompiles=bad, fallbacks=bad, cudagraphs=f"skipped: {HOSTILE}"
        ),
        environment=dataclasses.replace(
            good.environment, device_name=HOSTILE, platform=HOSTILE, cpu=HOSTILE, driver=HOSTILE, compiler=HOSTILE
        ),
        machine_states=(HostSample(0.0, 0.0, GpuSample(None, None, None, None, (HOSTILE,))),),
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
    )
    failed = failed_result(failure=Failure("load", HOSTILE, HOSTILE), caveats=(note(HOSTILE),))
    spec = result.spec
    pieces = [
        headline(result),
        failure(failed),
        problem("This cannot be run", HOSTILE),
        intro(HOSTILE),
        strip(Progress(HOSTILE, 0.5, 1.0, code=HOSTILE), spec),
    ]
    for piece in pieces:
        assert not Tags(piece).runs_script and HOSTILE not in piece


def spans(drawn: str, *kinds: str) -> list[list[float]]:
    """Where the first element of each class begins, and how wide it is, in per cent."""
    found = [re.findall(rf'class="{kind}" style="left:([\d.]+)%;width:([\d.]+)%', drawn)[0] for kind in kinds]
    return [list(map(float, span)) for span in found]


def test_the_ruler_holds_the_interval_of_a_loss_as_it_does_that_of_a_win() -> None:
    for low, high in [(0.21, 0.26), (3.8, 4.7)]:
        drawn = ruler(Interval((low * high) ** 0.5, low, high), True, 0.01)
        assert ">5×<" in drawn
        ((start, width),) = spans(drawn, "range")
        assert 0 < start and start + width < 100 and width > 5


def test_the_ruler_shows_one_process_inside_the_interval_or_each_of_several_as_a_dot() -> None:
    rerun, within = Interval(1.25, 1.15, 1.36), Interval(1.25, 1.23, 1.27)
    drawn = ruler(rerun, True, 0.01, within)
    (left, width), (inner, narrow) = spans(drawn, "range outer", "within")
    assert left < inner and inner + narrow < left + width and narrow < width / 3
    several = ruler(rerun, True, 0.01, None, [1.2, 1.3, 2.4])
    assert several.count('class="process"') == 3 and "processes: 1.20×, 1.30×, 2.40×" in several
    assert ">3×<" in several  # the axis holds a process outside of the interval
    assert 'class="range"' in ruler(rerun, True, 0.01)
