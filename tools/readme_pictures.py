"""Makes the README's pictures again: times a model, draws its race (calls over time), and photographs the page.

    python -m tools.readme_pictures [--checkpoint ID] [--repeats N]

Needs Chromium and a quiet machine. Nothing is written without a clear verdict ("Too busy to tell" is not clear). The
page uses a new data folder that holds only this run's processes.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from benchmarks.page_start import free_port
from demo.core.result_json import from_json
from demo.present.report import Report

ROOT = Path(__file__).resolve().parent.parent
RACE = ROOT / "assets" / "race.svg"
PAGE, PUBLISHED = (ROOT / "assets" / "screenshots" / name for name in ("page.png", "published.png"))
COMMAND = [sys.executable, "-m", "demo"]
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "chromium"
SECONDS = 60.0
"""How long to wait for a part of the page."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default="shapes-segformer")
    parser.add_argument("--repeats", default="5", help="fresh processes on which the answer rests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        os.environ["WORTH_COMPILING_DATA"] = data
        id = timed_run(options.checkpoint, options.repeats)
        with serve() as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            photograph(browser, f"{address}?run={id}&__theme=light", PAGE, (1280, 860), "#race .race:visible")
            published = "#published-durations .js-plotly-plot:visible"
            photograph(browser, f"{address}?tab=published&__theme=light", PUBLISHED, (1440, 1200), published)
            browser.close()
        subprocess.run([*COMMAND, "history", "race", id, str(RACE)], cwd=ROOT, check=True)
    print(f"Written: {', '.join(str(path.relative_to(ROOT)) for path in (RACE, PAGE, PUBLISHED))}")


def timed_run(checkpoint: str, repeats: str) -> str:
    """Times the checkpoint with an empty and with a filled compile cache. Returns the run's id.

    Ends the program if the run has no usable verdict.
    """
    arguments = ["run", "--checkpoint", checkpoint, "--cache", "empty", "--repeats", repeats, "--json"]
    process = subprocess.run([*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if process.returncode != 0:
        sys.exit("The run failed. Nothing was written.")
    report = Report(from_json(json.loads(process.stdout)))
    print(report.summary)
    if not report.usable or not report.race:
        sys.exit("This answer is not usable. Nothing was written. Try again on a quiet machine.")
    return report.result.id


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Yields the address of the page, which is served during the `with` block."""
    environment, command = os.environ | {"GRADIO_SERVER_PORT": str(free_port())}, [sys.executable, "app.py"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as app:
        try:
            yield next(line.split()[-1] for line in app.stdout or () if "Find out at" in line)
        finally:
            app.terminate()


def photograph(browser: Browser, address: str, path: Path, size: tuple[int, int], shows: str) -> None:
    """Writes a picture of the page at `address` to `path`, `size` (width, height) in pixels.

    `shows`: the CSS selector of the part of the page to wait for.
    """
    tab = browser.new_page(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
    tab.set_default_timeout(1000 * SECONDS)
    tab.goto(address)
    tab.locator(shows).first.wait_for()
    tab.evaluate("document.fonts.ready")
    tab.wait_for_timeout(2000)  # plotly and gradio draw some parts a moment later
    tab.screenshot(path=path)
    tab.close()


if __name__ == "__main__":
    main()
