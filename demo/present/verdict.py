"""Writes the verdict of a run as plain text: whether compiled is faster, slower or the same, and when compiling pays.

The 95 % interval of the speed-up decides. The verdict 'unsure' means that the measurement does not decide. Functions
return '', or None, for a run that failed or has no speed-up.
"""

from typing import Literal

from ..core import format as fmt
from ..core.caveat import IMPORTANT
from ..core.comparison import BreakEven, Comparison
from ..core.measurement import Compilation
from ..core.options import CUDA_GRAPH_MODES
from ..core.quality import quality
from ..core.result import RunResult
from ..core.stats import TAKEN_FACTOR, Interval
from . import naming

HEADLINES: dict[str, tuple[str, str, str]] = {
    "faster": ("Compiled is", "{ratio}", "faster"),
    "slower": ("Compiled is", "{ratio}", "slower"),
    "same": ("Compiled makes", "no difference", ""),
    "narrow": ("", "No clear difference", ""),
    "unsure": ("", "Too noisy", "to tell"),
    "busy": ("", "Too busy", "to tell"),
    "void": ("", "Void:", "recompiled while timed"),
}
"""The headline of a run in three texts, by `_headline_key`; the page shows the second one large."""
OPEN_BECAUSE = {
    "interval": "The range holds 1, so a gain and a loss are both possible.",
    "control": (
        "Eager timed against itself differed by {floor} on this machine: a difference of this size says nothing here."
    ),
    "machine": f"Each end allows for a factor of {TAKEN_FACTOR:g}, because other programs took cores.",
}
"""Why the verdict is 'unsure', by `Comparison.open_because`; `floor` is how far eager differed from itself."""
STARTS = {"cold": "from nothing", "warm": "with a kept cache", "partly": "from a partly filled cache"}
WIDE = 0.1
"""An 'unsure' verdict reads 'No clear difference' if the interval's half-width is at most this, else 'Too noisy'."""


# ---- the answer


def outcome(result: RunResult) -> Literal["void", "faster", "slower", "same", "unsure"] | None:
    """Returns the verdict of a run.

    'unsure': the measurement does not decide. 'void': the model was recompiled while timed, so the times mean nothing.
    """
    found = _comparison(result)
    if found is None:
        return None
    return "void" if result.void else found.verdict


def _comparison(result: RunResult) -> Comparison | None:
    return result.speedup if result.failure is None else None


def _headline_key(found: Comparison) -> str:
    """Returns a key of `HEADLINES`: the verdict, except that 'unsure' may become 'narrow', 'busy' or 'void'."""
    if found.open_because == "recompiled":
        return "void"
    if found.verdict != "unsure":
        return found.verdict
    if found.open_because == "machine":
        return "busy"
    return "narrow" if found.open_because == "interval" and found.half_width <= WIDE else "unsure"


def headline(result: RunResult) -> str:
    """Returns 'Compiled is 1.44× faster, 3.87 ms → 2.69 ms', or the message of a failure."""
    parts = headline_parts(result)
    if parts is None:
        return result.failure.message if result.failure else "The run gave no figures."
    return f"{' '.join(filter(None, parts))}, {times(result)}"


def headline_parts(result: RunResult) -> tuple[str, str, str] | None:
    """Returns ('Compiled is', '1.44×', 'faster')."""
    found = _comparison(result)
    if found is None:
        return None
    before, middle, after = HEADLINES[_headline_key(found)]
    if result.spec.graph_break:
        after = f"{after} (with added graph breaks)".strip()
    return before, middle.format(ratio=factor(found)), after


def times(result: RunResult) -> str:
    """Returns the times of an eager and of a compiled call: '329 ms → 144 ms'; '' if not both were timed."""
    return fmt.latencies(result.latencies.values()) if len(result.latencies) == 2 else ""


def factor(interval: Interval) -> str:
    """Returns how many times faster or slower, never below 1: '1.44×', with as many digits as the interval allows."""
    if interval.ratio < 1:
        return fmt.estimate(1 / interval.ratio, 1 / interval.high, 1 / interval.low)
    return fmt.estimate(interval.ratio, interval.low, interval.high)


def answer(result: RunResult) -> str:
    """Returns the verdict in short: '1.5× faster', 'no difference'.

    Without a clear verdict: 'too noisy to tell' or so. In doubt: '3× faster (rough)', '3× faster (wrong outputs)'.
    """
    found, mark = _comparison(result), quality(result)
    if found is None:
        return ""
    rough = mark is not None and mark.mark == "rough" and found.verdict != "unsure"
    return _answer(found) + (_doubt(result) or " (rough)" * rough)


def _doubt(result: RunResult) -> str:
    return " (wrong outputs)" if result.outputs_differ else " (outputs not compared)" * result.outputs_unknown


def _answer(found: Comparison) -> str:
    _, middle, after = HEADLINES[_headline_key(found)]
    text = f"{middle.format(ratio=factor(found))} {after}".strip()
    return text[:1].lower() + text[1:]


def title(result: RunResult) -> str:
    """Returns model and verdict or status: 'shapes-vit 1.14× faster', 'shapes-vit: Out of memory'."""
    colon = "" if outcome(result) in ("faster", "slower") else ":"
    model = fmt.shorten(fmt.printable(naming.short(result.spec.checkpoint)), 60)
    return f"{model}{colon} {answer(result) or naming.status(result)}"


def speedup(result: RunResult) -> str:
    """Returns '1.44×' if compiled is faster, '0.80×' if slower, both with a doubt of the outputs, else `answer`."""
    found = _comparison(result)
    if found is None or not (ratio := _ratio(found)):
        return answer(result)
    return ratio + _doubt(result)


def _ratio(found: Comparison) -> str:
    decided = _headline_key(found) in ("faster", "slower")
    return fmt.estimate(found.ratio, found.low, found.high) if decided else ""


def speedup_in_full(result: RunResult) -> str:
    """Returns '1.44× (1.41 to 1.45×)', with the 95 % interval; without it if the model was recompiled while timed."""
    found = _comparison(result)
    return speedup(result) if found is None or result.void else with_ends(speedup(result), found)


def without_breaks(result: RunResult) -> str:
    """Returns 'Without the added breaks, stored: 1.45× (1.41 to 1.49×)', from the latest such run; '' without one."""
    found = result.without_breaks
    return f"Without the added breaks, stored: {with_ends(_ratio(found) or _answer(found), found)}" if found else ""


def with_ends(text: str, interval: Interval) -> str:
    """Returns `text` with the interval: '1.44× (1.41 to 1.45×)'."""
    return f"{text} ({fmt.ends(interval.low, interval.high)})"


def in_one_line(result: RunResult) -> str:
    """Returns 'shapes-vit on AMD EPYC: 1.25× (1.24 to 1.26×), compiled against eager (from 3 processes, ...)'."""
    found = _comparison(result)
    if found is None:
        return ""
    compiled = "compiled with added graph breaks" if result.spec.graph_break else "compiled"
    about = f"{result.spec.checkpoint} on {naming.where(result)}"
    return f"{about}: {speedup_in_full(result)}, {compiled} against eager ({basis(found)})"


# ---- how far it can be relied on


def interval(result: RunResult) -> str:
    """Returns 'speed-up 1.41 to 1.45×, 95 % confidence, from 3 processes, ...'.

    If compiled is slower, the text has the slow-down: 'slow-down 9.80 to 10.20×' is more precise than 'speed-up 0.10×'.
    """
    found = result.speedup
    if found is None:
        return ""
    gain = f"speed-up {fmt.ends(found.low, found.high)}"
    loss = f"slow-down {fmt.ends(1 / found.high, 1 / found.low)}"
    return f"{loss if found.verdict == 'slower' else gain}, 95 % confidence, {basis(found)}"


def basis(found: Comparison) -> str:
    """Returns what the interval is based on: 'from 3 processes, including their differences'."""
    within = found.basis == "within one process"
    processes = "within one process" if within else f"from {fmt.count(found.processes, 'process')}"
    if found.widened_by == "machine":
        return f"{processes}, with a factor of {TAKEN_FACTOR:g} at each end for taken cores"
    if within:
        return f"{processes}: a rerun may lie outside"
    if found.widened_by == "control":
        return f"{processes}, as wide as eager differed from itself: {fmt.percent(found.floor)}"
    if found.processes > 1:
        return f"{processes}, including their differences"
    return f"{processes}, including about {fmt.percent(found.deviation)} between processes"


def noise(found: Comparison) -> str:
    """Returns why the verdict is 'unsure', or else how far two timings of eager differed: the noise of the machine."""
    if found.open_because in OPEN_BECAUSE:
        return OPEN_BECAUSE[found.open_because].format(floor=fmt.percent(found.floor))
    if found.control is None:
        return "Eager was not timed against itself."
    return f"Eager timed against itself: {fmt.percent(found.floor)} apart."


def quality_line(result: RunResult) -> str:
    """Returns how reliable the speed-up is: 'Fair: it rests on 1 process.'."""
    mark = quality(result)
    return f"{mark.mark.capitalize()}: {mark.reason}." if mark is not None else ""


def launching(result: RunResult) -> str:
    """Returns 'Launching kernels is 62 % of an eager call. Mode reduce-overhead launches all of them at once'.

    '' if launching takes less than a third of an eager call, or if the run used CUDA graphs or cannot use them.
    """
    spec, eager = result.spec, result.eager
    plain = spec.mode not in CUDA_GRAPH_MODES and spec.scope == "model" and spec.compiler == "jit"
    if not plain or eager is None or not eager.host_bound or outcome(result) in (None, "void"):
        return ""
    share = fmt.percent(eager.launch_share or 0.0)
    return f"Launching kernels is {share} of an eager call. Mode reduce-overhead launches all of them at once"


def caveat(result: RunResult) -> str:
    """Returns the most important warning about the result, by the order of `IMPORTANT`; '' if there is none."""
    texts = {one.key: str(one) for one in reversed(result.caveats)}
    return next((texts[key] for key in IMPORTANT if key in texts), "")


# ---- when compiling pays

NEVER = BreakEven(calls=None, low=None, high=None, images=None, seconds=None)


def break_even(result: RunResult, state: str) -> BreakEven | None:
    """Returns after how many calls compiling pays from `state`, a key of `starts`; `NEVER` if compiled is not faster.

    Returns None if that is not known: without a clear verdict, or if the outputs of eager and compiled differ.
    """
    stated = outcome(result)
    if stated not in ("faster", "same", "slower") or result.outputs_differ:
        return None
    return result.break_even(state) if stated == "faster" else NEVER


def worth(result: RunResult) -> str:
    """Returns when compiling pays, or that it is not known: 'Pays after 9 000 to 30 000 calls from nothing'.

    'From nothing' means with an empty compile cache. The range is that of `calls_to_pay`.
    """
    stated, compiled = outcome(result), result.compilation
    if stated is None or compiled is None:
        return ""
    if stated == "void":
        return "It was recompiled while it was timed: no figure holds"
    if result.outputs_differ:
        return "Compiled gives other outputs than eager: whether it pays is not known"
    if stated == "unsure":
        return "Whether compiling pays is not known yet"
    paid: list[str] = []
    for state in result.starts:
        even = break_even(result, state)
        if even is None or even.calls is None:
            return "Never pays here"
        calls, thing = _range_to_pay(even)
        paid.append(f"{calls}{'' if paid else f' {thing}'} {start_name(compiled, state)}")
    return f"Pays after {', '.join(paid)}{', if its outputs are right' if result.outputs_unknown else ''}"


def worth_why(result: RunResult) -> str:
    """Returns the time of a first call: 'A start takes 28 s from nothing, 1.2 s with a kept cache'; '' if not known.

    Of several equal runs it is the mean.
    """
    compiled = result.compilation
    if compiled is None or outcome(result) in (None, "void"):
        return ""
    costs = [f"{fmt.duration(one.seconds)} {start_name(compiled, state)}" for state, one in result.starts.items()]
    return f"A start takes {', '.join(costs)}"


def start_name(compiled: Compilation, state: str) -> str:
    """Returns `state`, a key of `known_costs`, in words: 'from nothing' (empty compile cache), 'with a kept cache'."""
    if state == "warm" and compiled.package_bytes is not None:
        return "with the package kept"
    return STARTS[state]


def calls_to_pay(even: BreakEven) -> str:
    """Returns the break-even of a run: '10 000 to 140 000 calls', 'about 20 000 tokens', 'never'."""
    return "never" if even.calls is None or even.low is None else " ".join(_range_to_pay(even))


def _range_to_pay(even: BreakEven) -> tuple[str, str]:
    """Returns after how many calls, or tokens, compiling pays, as the 95 % interval: ('10 000 to 140 000', 'calls')."""
    thing, each = ("call", 1.0) if even.answers is None else ("token", (even.images or 0) / max(even.calls or 0, 1))
    ends = [fmt.two_digits(end * each) for end in (even.low, even.high) if end is not None]
    numbers = [fmt.group_thousands(end) for end in ends]
    noun = thing if ends[-1] == 1 else f"{thing}s"
    if even.high is None:
        return f"at least {numbers[0]}", noun
    return f"about {numbers[0]}" if ends[0] == ends[1] else " to ".join(numbers), noun
