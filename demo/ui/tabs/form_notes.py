"""The notes below the fields of the form, as Markdown, and the forecast above its Run button, as HTML."""

from markupsafe import Markup

from demo.core import catalog, format as fmt, hub
from demo.core.catalog import Checkpoint
from demo.core.options import TEXT_GENERATION, RunSpec
from demo.present import naming
from demo.present.markdown import escape_markdown
from demo.runs.forecast import Forecast
from demo.tasks.registry import BY_NAME
from demo.ui.templates import render

MODES = {
    "default": "Fuses operations into fewer kernels. Start with this one.",
    "reduce-overhead": "On a GPU, records the kernels of a call and replays them with one launch: helps small batches.",
    "max-autotune": "Tries many kernels for each operation, keeps the fastest, replays launches. Compiles longest.",
    "max-autotune-no-cudagraphs": "Tries many kernels, but launches them one by one: less memory than max-autotune.",
    "lite": "Keeps eager's own kernels: compiles quickly, gains little.",
}


def mode_note(mode: str) -> str:
    return MODES.get(mode, "A mode of the installed torch that has no description here.")


def checkpoint_note(checkpoint: str) -> str:
    """Returns facts on a checkpoint as Markdown; '' if it cannot be run: the forecast then says why."""
    entry = catalog.find(checkpoint)
    if entry is None:
        sentence = f"Not in the list: {checkpoint} comes from the Hub (safetensors only)."
        return "" if catalog.id_refusal(checkpoint) else escape_markdown(sentence)
    facts = [fmt.capital(source(entry))]
    if entry.parameters:
        facts.append(f"{fmt.parameters(entry.parameters)} parameters")
    if entry.task != TEXT_GENERATION:
        facts.append(f"{entry.input_size[1]} × {entry.input_size[0]} px")
    line = " · ".join(fact.replace(" ", "\N{NO-BREAK SPACE}") for fact in facts)
    if not entry.bundled:
        return line
    shapes = "" if entry.task == TEXT_GENERATION else f": {', '.join(catalog.drawn_shapes(entry))}"
    return f"{line}\n\n{escape_markdown(fmt.sentence(f'{entry.title} only{shapes}'))}"


def drawn_only_note(checkpoint: Checkpoint) -> str:
    return escape_markdown(
        f"{checkpoint.id} knows drawn shapes only: on this picture its predictions would mean nothing."
    )


def for_photographs(task: str) -> str:
    """Returns the words on the button that switches to the task's model for photographs; '' if there is no model."""
    other = catalog.find(BY_NAME[task].published)
    return f"Use {naming.short(other.id)}, for photographs ({source(other)})" if other is not None else ""


def source(checkpoint: Checkpoint) -> str:
    """Returns where the weights are: 'bundled', 'in the cache', 'from the Hub', 'download about 346 MB' (float32)."""
    if checkpoint.bundled:
        return "bundled"
    if hub.holds_weights(checkpoint.id):
        return "in the cache"
    return f"download about {fmt.size(4 * checkpoint.parameters)}" if checkpoint.parameters else "from the Hub"


def doubts(spec: RunSpec) -> list[str]:
    """Returns a sentence for each setting that is of no use on the spec's device, 'cpu' or 'cuda'."""
    if spec.device == "cuda":
        return ["The number of threads matters on a CPU only."] if spec.threads is not None else []
    sentences = []
    if spec.mode == "reduce-overhead":
        sentences.append("reduce-overhead uses CUDA graphs, which need a GPU: on a CPU it does the same as default.")
    if spec.dtype == "float16":
        sentences.append("Most CPUs convert float16 to float32 to compute: slower than float32 and bfloat16.")
    return sentences


def forecast(expected: Forecast | None, checkpoint: Checkpoint | None, spec: RunSpec, query: str) -> Markup:
    """Returns as HTML how long a run will take, and which settings are useless. A button copies the link `query`."""
    text, basis = "No estimate yet: this checkpoint has not been run here.", ""
    if expected is not None:
        text = f"About {fmt.rounded_duration(expected.seconds)}"
        basis = f"based on earlier runs with these settings: {expected.runs}"
        if not expected.runs and checkpoint is not None:
            basis = f"rough estimate from model size ({fmt.parameters(checkpoint.parameters)} parameters)"
            basis += ", download not counted" if source(checkpoint).startswith("download") else ""
    return render("results.forecast", text, basis, doubts(spec), query)
