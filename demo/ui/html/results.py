"""The result pane as HTML: before a run, while it goes on, and after it.

After a run: the verdict, what eager and compiled saw or wrote, and the parts of `demo.present.details`, each with the
chart that it has.
"""

import statistics
from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import urlencode

from markupsafe import Markup

from demo.core import catalog, format as fmt, hub
from demo.core.catalog import Checkpoint
from demo.core.progress import Progress
from demo.core.quality import quality
from demo.core.result import RunResult
from demo.core.spec import TEXT_GENERATION, RunSpec
from demo.present import card, naming, verdict
from demo.runs.forecast import Forecast
from demo.store import published
from demo.tasks import BY_NAME
from demo.ui.html.elements import again, drawn, fill, ruler, when_quiet

DOUBT = {
    "no gpu": "There is no GPU here that torch can use: choose the device auto or cpu.",
    "no cuda graphs on a cpu": (
        "reduce-overhead uses CUDA graphs, which need a GPU: on a CPU it does the same as default."
    ),
    "float16 on a cpu": "Most CPUs convert float16 to float32 to compute: slower than float32 and bfloat16.",
    "no tf32": "TensorFloat-32 needs a GPU of compute capability 8.0 or more, such as an A100: choose float32.",
    "no bfloat16": "On this GPU torch.compile leaves bfloat16 to eager: choose float16.",
    "threads on a gpu": "The number of threads matters on a CPU only.",
    "lost before": "Compiled was slower every time this ran here.",
    "will not fit": "This needs more memory than the machine has: it will probably run out of memory.",
    "may not fit": "This may need more memory than is free.",
}
DOING = (
    "Reading the model and its input",
    "First calls of the eager model",
    "Compiling: a one-time cost on the first call",
    "Timing eager and compiled in turn",
    "Comparing the outputs of both",
)
"""What is done in each of `STEPS`."""


def intro(checkpoint: str) -> Markup:
    """Before the first run: the question, and what Run will do."""
    return drawn("results.intro", naming.short(checkpoint), catalog.refusal(checkpoint))


def published_for(checkpoint: str, task: str) -> tuple[str, str]:
    """The checkpoint whose published rows are shown, '' for a task without, and a sentence on that as plain text."""
    if any(row.checkpoint == checkpoint for row in published.rows()):
        return checkpoint, (
            f"What the guide measured for {naming.short(checkpoint)} in 2023, on GPUs. Yours will differ."
        )
    if not (relative := BY_NAME[task].published):
        return "", f"The guide's tables hold no model of {BY_NAME[task].label.lower()}."
    return relative, (
        f"The Hugging Face guide has no figures for {naming.short(checkpoint)}. "
        f"Its 2023 GPU results for {naming.short(relative)}:"
    )


def published_note(checkpoint: str, task: str) -> Markup:
    _, sentence = published_for(checkpoint, task)
    return drawn("results.note", sentence, "figure-title")


def headline(result: RunResult) -> Markup:
    """The verdict: the speed-up as a large figure, when compiling pays, what the answer rests on, and its quality."""
    outcome, speedup, known = verdict.outcome(result), result.speedup, quality(result)
    if outcome is None or speedup is None:
        return failure(result)
    repeats = [next(iter(one.figures.values())).within.ratio for one in result.as_processes()]
    several = repeats if len(repeats) > 1 else []
    certain = outcome in ("faster", "slower")
    return drawn(
        "results.headline",
        result,
        kicker(result),
        verdict.worth(result),
        verdict.worth_why(result),
        certain=certain,
        ruler=ruler(speedup, certain, speedup.floor, None if several else speedup.within, several),
        button=when_quiet(result.spec) if known is not None and known.remedy == "quiet" else "",
        title=card.title(result),
    )


def failure(result: RunResult) -> Markup:
    """A run without figures: what happened, with which settings, and what to do."""
    failed = result.failure
    message = failed.message if failed else "The run gave no figures."
    remedy = failed.remedy if failed else "Run it again."
    way_out = Markup(escape(remedy)) + again(result.spec, failed.change if failed else {})
    return drawn("results.card", naming.status(result), message, way_out, kicker(result), card.title(result))


def kicker(result: RunResult) -> str:
    """Settings, machine and time of a run."""
    started = f"{fmt.minute(result.started_at)} UTC"
    return " · ".join([naming.run_line(result), naming.where(result), started])


def problem(title: str, message: str, way_out: str = "") -> Markup:
    """A card for what was not run or did not work; `way_out` is HTML."""
    return drawn("results.card", title, message, Markup(way_out))


def checkpoint_note(checkpoint: Checkpoint | None, named: str) -> Markup:
    """Under the list: what is known of the chosen checkpoint."""
    if checkpoint is None:
        refused = catalog.refusal(named)
        told = refused if refused else f"Not in the list; {named} will be fetched from the Hub (safetensors only)."
        return drawn("results.note", told)
    shapes = catalog.drawn_shapes(checkpoint) if checkpoint.drawn_only and checkpoint.task != TEXT_GENERATION else ()
    return drawn("results.facts", checkpoint, ", ".join(shapes), "" if checkpoint.bundled else download(checkpoint))


def drawn_only_note(checkpoint: Checkpoint) -> Markup:
    """That its predictions mean nothing on a photograph, with a press to a model for photographs of the same task."""
    told = f"{checkpoint.id} knows drawn shapes only: on this picture its predictions would mean nothing."
    other = catalog.find(BY_NAME[checkpoint.task].published)
    if other is None:
        return drawn("results.note", told)
    words = f"Use {naming.short(other.id)}, for photographs ({download(other)})"
    return drawn("results.note", told) + fill(escape(words), checkpoint=other.id)


def download(checkpoint: Checkpoint) -> str:
    """'in the cache', 'download about 346 MB': the weights of a checkpoint of the Hub, at four bytes a parameter."""
    if hub.holds_weights(checkpoint.id):
        return "in the cache"
    return f"download about {fmt.size(4 * checkpoint.parameters)}" if checkpoint.parameters else "from the Hub"


def note(text: str) -> Markup:
    """A text in the manner of a note below a field."""
    return drawn("results.note", text)


MODES = {
    "default": "Fuses operations into fewer kernels. Start with this one.",
    "reduce-overhead": "On a GPU, records the kernels of a call and replays them with one launch: helps small batches.",
    "max-autotune": "Tries many kernels for each operation, keeps the fastest, replays launches. Compiles longest.",
    "max-autotune-no-cudagraphs": "Tries many kernels, but launches them one by one: less memory than max-autotune.",
    "lite": "Keeps eager's own kernels: compiles quickly, gains little.",
}


def mode_note(mode: str) -> Markup:
    return note(MODES.get(mode, "A mode of the installed torch that has no description here."))


def forecast(
    expected: Forecast | None, checkpoint: Checkpoint | None, doubts: Iterable[str], query: str = ""
) -> Markup:
    """Beside Run: time, memory, what they rest on, doubts, and the `query` of the link that copy.js copies."""
    told, basis = "No estimate yet: this checkpoint has not been run here.", ""
    if expected is not None:
        told = f"about {fmt.rounded_duration(expected.seconds)}"
        basis = f"based on earlier runs with these settings: {expected.runs}"
        if expected.basis == "parameters" and checkpoint is not None:
            basis = (
                f"rough estimate from model size ({fmt.parameters(checkpoint.parameters)} parameters), "
                "download not counted"
            )
        if expected.memory_bytes:
            memory = f"about {fmt.size(expected.memory_bytes)}"
            told = f"{told}, {memory} of memory"
    words = [DOUBT[doubt] for doubt in doubts]
    return drawn("results.forecast", fmt.capital(told), basis, words, query)


# While it runs


def meanwhile(spec: RunSpec, runs: Sequence[RunResult]) -> Markup:
    """What is known of a run that waits: how long the latest `runs` of this machine took, and the newest answer of its
    settings."""
    took = [run.elapsed_seconds for run in runs if run.status == "ok"][:5]
    texts = [f"A run takes about {fmt.rounded_duration(statistics.median(took))} here."] if took else []
    known = next((run for run in runs if run.spec == spec and verdict.outcome(run)), None)
    if known is None:
        return drawn("results.note", " ".join(texts))
    at = fmt.minute(known.started_at)
    told = f"The latest answer of these settings, {at} UTC: {verdict.speedup_in_full(known)}."
    link = Markup('<a href="?{}">Open it</a>').format(urlencode({"run": known.id}))
    return drawn("results.note", " ".join([*texts, told])) + link


STEPS = ("Load", "Warm up", "Compile", "Time", "Check")
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def strip(progress: Progress, spec: RunSpec) -> Markup:
    """Phases, time, two lanes and the interval so far.

    gradio replaces only the nodes that differ. So the order and number of elements must not depend on the progress:
    then bars only change their length.
    """
    speedup, step = progress.speedup, STEP_OF_PHASE.get(progress.phase, 0)
    axis = ruler(speedup, not speedup.too_wide, 0.0) if speedup is not None else ""
    lanes = _lanes(progress, spec)
    return drawn("progress.strip", spec, progress, STEPS, step, doing(progress), lanes, axis)


def doing(progress: Progress) -> Markup:
    """What the worker is doing."""
    if progress.code:
        return Markup(escape(naming.worker_word(progress.code)))
    step = STEP_OF_PHASE.get(progress.phase, 0)
    return Markup("Done" if step == len(STEPS) else DOING[step])


def _lanes(progress: Progress, spec: RunSpec) -> dict[str, tuple[float, str, str]]:
    """By variant the share of its bar, of which the fastest shows how far the timing is, its latency and its rate."""
    seen = {"eager": progress.eager_seconds, "compiled": progress.compiled_seconds}
    fastest = min((seconds for seconds in seen.values() if seconds), default=0.0)
    done = 1.0 if progress.phase in ("check", "done") else progress.timing_done or 0.0
    return {
        variant: (done * fastest / seconds, fmt.latency(seconds), fmt.significant(spec.batch_size / seconds))
        if seconds
        else (0.0, "–", "–")
        for variant, seconds in seen.items()
    }
