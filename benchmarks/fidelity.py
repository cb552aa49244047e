"""Our median latency over that of a plain hand-written loop, alternated in one run.

The loop is the guide's recipe in a process of its own: load, warm up, time calls in a row, eager and then compiled.
1.00 says that the app's protocol (fresh worker, interleaved blocks, synchronised clock) costs the figure nothing.
The bundled checkpoints with 300 calls, and three full-size ones with random weights and fewer calls.
Aim on a CPU: 0.95 to 1.05.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks import report
from demo import catalog
from demo.runner import Runner
from demo.schema import Checkpoint, RunResult

FULL_SIZE = ("google/vit-base-patch16-224", "microsoft/resnet-50", "nvidia/segformer-b0-finetuned-ade-512-512")
ROUNDS, ROUNDS_FULL_SIZE = 3, 1
CALLS, CALLS_FULL_SIZE = 300, 20
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
LOOP = """
import json, sys, time, statistics, torch, transformers
from PIL import Image
from transformers.models.auto.image_processing_auto import AutoImageProcessor
folder, scene, auto_class, calls, trained = sys.argv[1:]
kind = getattr(transformers, auto_class)
if trained == "True":
    model = kind.from_pretrained(folder).eval()
else:
    model = kind.from_config(transformers.AutoConfig.from_pretrained(folder)).eval()
processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
inputs = processor(images=[Image.open(scene).convert("RGB")], return_tensors="pt")
def loop(model):
    times = []
    with torch.no_grad():
        for _ in range(min(10, int(calls))):
            model(pixel_values=inputs["pixel_values"])
        for _ in range(int(calls)):
            start = time.perf_counter()
            model(pixel_values=inputs["pixel_values"])
            times.append(time.perf_counter() - start)
    return statistics.median(times)
eager = loop(model)
print(json.dumps([eager, loop(torch.compile(model))]))
"""


def by_hand(checkpoint: Checkpoint) -> tuple[float, float]:
    folder = str(catalog.config_folder(checkpoint))
    calls = CALLS if checkpoint.bundled else CALLS_FULL_SIZE
    command = [sys.executable, "-c", LOOP, folder, str(SCENE), checkpoint.auto_class]
    command += [str(calls), str(checkpoint.bundled)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    eager, compiled = json.loads(done.stdout.splitlines()[-1])
    return eager, compiled


def by_us(runner: Runner, checkpoint: Checkpoint) -> tuple[float, float]:
    spec = catalog.make_spec(checkpoint.id, weights="pretrained" if checkpoint.bundled else "random")
    *_, result = runner.run(spec, SCENE)
    if not isinstance(result, RunResult) or result.eager is None or result.compiled is None:
        sys.exit(f"the run of {checkpoint.id} gave no figures")
    return result.eager.median_seconds, result.compiled.median_seconds


def main() -> None:
    runner = Runner(None)
    rows, outside = [], []
    for checkpoint in (entry for entry in catalog.CHECKPOINTS if entry.bundled or entry.id in FULL_SIZE):
        rounds = ROUNDS if checkpoint.bundled else ROUNDS_FULL_SIZE
        by_hand(checkpoint)  # fills the compile cache, so that neither side compiles in the counted rounds
        pairs = [(by_us(runner, checkpoint), by_hand(checkpoint)) for _ in range(rounds)]
        for index, variant in enumerate(("eager", "compiled")):
            ratios = [ours[index] / theirs[index] for ours, theirs in pairs]
            middle = statistics.median(ratios)
            ours, theirs = (statistics.median(pair[side][index] for pair in pairs) for side in (0, 1))
            rows.append(
                [
                    checkpoint.id,
                    variant,
                    f"{ours * 1e3:.3f} ms",
                    f"{theirs * 1e3:.3f} ms",
                    f"{middle:.3f}",
                    str(rounds),
                    f"{min(ratios):.3f} to {max(ratios):.3f}",
                ]
            )
            if not 0.95 <= middle <= 1.05:
                outside.append(f"{checkpoint.id} {variant}")
    header = ["checkpoint", "variant", "ours", "plain loop", "ratio, median", "rounds", "range"]
    report.publish("fidelity", "Our median over a plain loop's", report.table(header, rows))
    if outside:
        sys.exit(f"outside 0.95 to 1.05: {', '.join(outside)}")


if __name__ == "__main__":
    main()
