"""Records the results that come with the project: one for each bundled model, and one for each run of the stage mode.

Start it on a machine that does nothing else: python -m tools.record

In the page's stage mode the keys 1 to 4 start runs. Each run begins with an empty compile cache. A rough or unclear
result, such as one that other programs disturbed, is not kept.
"""

import argparse
import dataclasses
import json
import sys

from demo.core import catalog
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.present import naming
from demo.present.report import Report
from demo.runs.runner import Runner
from demo.ui.tabs.form import default_picture
from demo.ui.tabs.headline import RECORDED
from demo.ui.tabs.stage_bar import presets


def specs() -> dict[str, RunSpec]:
    """Returns the specs of the runs to record, by the name of the result's file without '.json'."""
    bundled = [entry for entry in catalog.CHECKPOINTS if entry.bundled]
    prompts = [catalog.PROMPT if entry.task == TEXT_GENERATION else "" for entry in bundled]
    models = [catalog.make_spec(entry.id, prompt=prompt) for entry, prompt in zip(bundled, prompts, strict=True)]
    wanted = dict.fromkeys([*models, *presets(None).values()])
    empty = [dataclasses.replace(spec, cache="empty") for spec in wanted]
    return {"-".join([spec.checkpoint, *_departures(spec)]): spec for spec in empty}


def _departures(spec: RunSpec) -> list[str]:
    others = {name: value for name, value in spec.departures().items() if name not in ("cache", "prompt", "device")}
    return [str(value) if isinstance(value, str) else name.replace("_", "-") for name, value in others.items()]


def measure(runner: Runner, spec: RunSpec) -> RunResult:
    *_, last = runner.run(spec, default_picture(spec.checkpoint) if spec.sees_picture else None)
    assert isinstance(last, RunResult)
    return last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(specs())}")
    only = parser.parse_args().names
    lost = []
    for name, spec in specs().items():
        if only and name not in only:
            continue
        runner = Runner(None)
        result = measure(runner, spec)
        runner.close()
        report = Report(result)
        print(f"{name}: {naming.run_line(result)}. {report.headline}, {report.interval}. {report.quality_line}.")
        if not report.usable or report.quality is None or report.quality.mark == "rough":
            lost.append(name)
            continue
        text = json.dumps(to_json(result), allow_nan=False, ensure_ascii=False)
        (RECORDED / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    if lost:
        sys.exit(f"Not kept, because they cannot stand for another run: {', '.join(lost)}. Try them again.")


if __name__ == "__main__":
    main()
