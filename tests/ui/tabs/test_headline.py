"""The verdict, its ruler and the card of a failure: their HTML, in which any text from outside is escaped."""

import dataclasses
import re
from pathlib import Path

from support.page_support import HOSTILE, Tags
from support.samples import ENVIRONMENT, failed_result, ok_result

from demo.core.caveat import Caveat, note
from demo.core.progress import Progress
from demo.core.result import Failure
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.ui.tabs import tables
from demo.ui.tabs.headline import failure, headline, intro, problem, ruler
from demo.ui.tabs.live_strip import strip

TEMPLATES = Path(__file__).parents[3] / "demo" / "ui" / "templates"


def test_no_template_calls_a_text_safe_and_each_attribute_is_quoted() -> None:
    templates = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.html")]
    assert templates and not any(re.search(r"\|\s*safe|autoescape|=\s*\{\{", text) for text in templates)


def test_of_many_caveats_the_most_important_stands_beside_the_answer() -> None:
    caveats = (Caveat("random_weights"), Caveat("breaks", {"breaks": 2, "graphs": 3}), Caveat("no_graph"))
    html = headline(ok_result(caveats=caveats))
    assert str(caveats[2]) in html and not any(str(one) in html for one in caveats[:2])


def test_texts_from_models_files_and_errors_cannot_become_html() -> None:
    spec = RunSpec(f"{HOSTILE}/model", "image-classification")
    elsewhere = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, cpu=HOSTILE)
    result = ok_result(id=HOSTILE, spec=spec, caveats=(note(HOSTILE),), environment=elsewhere)
    failed = failed_result(failure=Failure("load", HOSTILE, HOSTILE))
    pieces = [
        headline(result),
        failure(failed),
        problem("This cannot be run", HOSTILE, HOSTILE),
        intro(HOSTILE),
        strip(Progress(HOSTILE, 0.5, 1.0, code=HOSTILE), spec),
        tables.status(HOSTILE),
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
