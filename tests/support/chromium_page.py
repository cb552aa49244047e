"""The tab Run in Chromium: what the fake runner answers, and how a test opens the page and runs a model."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from support.fake_runner import FakeRunner, measured
from support.page_support import stored
from support.samples import measurement, ok_result, text_result

from demo.core.comparison import Spread
from demo.core.options import BadInput, RunSpec
from demo.core.outputs import Predictions
from demo.core.result import RunResult
from demo.ui.tabs.run_tab import BROWSER_KEY

STORED = stored("segmentation")
REFUSED = 13
"""A batch size that the fake runner refuses, as a worker would refuse a wrong setting."""
WROTE = Predictions(text=64 * " star", pieces=64 * (" star",), token_ids=64 * (7,))
LONG = 64
"""A batch size whose run lasts until it is cancelled."""
HEADLINE = "#top .headline .figure"


class Runner(FakeRunner):
    def answer_to(self, spec: RunSpec, image: Path | None) -> RunResult | Exception:
        self.seconds = 600.0 if LONG == spec.batch_size else 0.4
        if spec.batch_size == REFUSED:
            return BadInput("Batch size 13 is unlucky. Choose another one.")
        if spec.task == "text-generation":
            return text_result(spec=spec, predictions={"eager": WROTE, "compiled": WROTE})
        return dataclasses.replace(
            measured(spec),
            spec=dataclasses.replace(spec, device="cpu"),
            image=dataclasses.replace(
                STORED.image, sha256=hashlib.sha256(image.read_bytes() if image else b"").hexdigest()
            ),
            predictions=STORED.predictions,
            parity=STORED.parity,
            spread=Spread("assumed", 0.03),
            eager=measurement(0.012),
            control_times=measurement(0.012),
            compiled=measurement(0.004 if spec.freezing else 0.005 if spec.compiler == "aot" else 0.006),
            without_breaks=ok_result().speedup if spec.graph_break else None,
        )


def open_link(tab: Any, url: str = "") -> None:
    """Opens `url`, or reloads the tab's page if `url` is '', and waits until the page shows the machine.

    Give `url` a setting, such as '?batch_size=3': without a setting, the page shows the run that has just ended.
    """
    if url:
        tab.goto(url)
    else:
        tab.reload()
    tab.locator("#forecast .forecast").wait_for(state="attached")
    tab.get_by_text("Example CPU").first.wait_for(state="attached")
    tab.wait_for_function("key => localStorage.getItem(key)", arg=BROWSER_KEY)  # by which a visitor's run is found


def batch(tab: Any) -> Any:
    return tab.get_by_label("number input for Batch size")


def run(tab: Any, batch_size: int | None = None) -> None:
    if batch_size is not None:
        batch(tab).fill(str(batch_size))
        batch(tab).press("Tab")
    tab.locator("#run:not([disabled])").click()


def scroll_width(tab: Any) -> int:
    return int(tab.evaluate("document.documentElement.scrollWidth"))
