"""What a run's verdict says: the answer, its interval, what that rests on, and from when on compiling pays.

The same sentences, plain text, stand on the page, in the terminal and in an export.
"""

from typing import Literal

from demo.core import format as fmt, stats
from demo.core.caveat import IMPORTANT
from demo.core.comparison import BreakEven, Comparison
from demo.core.measurement import Compilation
from demo.core.quality import quality
from demo.core.result import RunResult
from demo.present import naming

HEADLINES: dict[str, tuple[str, str, str]] = {
    "faster": ("Compiled is", "{ratio}", "faster"),
    "slower": ("Compiled is", "{ratio}", "slower"),
    "same": ("Compiled makes", "no difference", ""),
    "narrow": ("", "No clear difference", ""),
    "unsure": ("", "Too noisy", "to tell"),
    "busy": ("", "Too busy", "to tell"),
    "void": ("", "Void:", "recompiled while timed"),
}
"""What stands before a large figure, the figure, and what stands after it, by `_kind`."""
OPEN_BECAUSE = {
    "interval": "The range holds 1, so a gain and a loss are both possible.",
    "control": (
        "Eager timed against itself differed by {floor} on this machine: a difference of this size says nothing here."
    ),
    "machine": "Other programs took the cores while it was timed.",
}
STARTS = {"cold": "from nothing", "warm": "with a kept cache", "partly": "from a partly filled cache"}
Outcome = Literal["void", "faster", "slower", "same", "unsure"]
WIDE = 0.1
"""From this half-width of the interval on an open verdict is told as noise."""


def outcome(result: RunResult) -> Outcome | None:
    """The verdict that the headline states; None for a run without a speed-up."""
    known = _known(result)
    if known is None:
        return None
    return "void" if result.void else known.verdict


def _known(result: RunResult) -> Comparison | None:
    return result.speedup if result.failure is None else None


def headline(result: RunResult) -> str:
    """The result in one sentence: 'Compiled is 1.44× faster, 3.87 ms → 2.69 ms'; or the failure's message."""
    parts = headline_parts(result)
    if parts is None:
        return result.failure.message if result.failure else "The run gave no figures."
    return f"{' '.join(filter(None, parts))}, {times(result)}"


def headline_parts(result: RunResult) -> tuple[str, str, str] | None:
    """The headline as (text before, the figure, text after); None for a run without a speed-up."""
    known = _known(result)
    if known is None:
        return None
    before, shown, after = HEADLINES[_kind(known)]
    if result.spec.graph_break:
        after = f"{after} (with added graph breaks)".strip()
    return before, shown.format(ratio=figure(known)), after


def times(result: RunResult) -> str:
    """'329 ms → 144 ms': a call, eager then compiled."""
    return fmt.latencies(result.latencies.values()) if len(result.latencies) == 2 else ""


def figure(known: stats.Interval) -> str:
    """How many times faster, or slower where it is, with the digits that its interval allows."""
    if known.ratio < 1:
        return fmt.estimate(1 / known.ratio, 1 / known.high, 1 / known.low)
    return fmt.estimate(known.ratio, known.low, known.high)


def _kind(known: Comparison) -> str:
    """The verdict; of an open one what it tells: 'narrow', 'unsure', 'busy' or 'void'."""
    if known.open_because == "recompiled":
        return "void"
    if known.verdict != "unsure":
        return known.verdict
    if known.open_because == "machine":
        return "busy"
    return "narrow" if known.open_because == "interval" and known.half_width <= WIDE else "unsure"


def answer(result: RunResult) -> str:
    """The answer in short: '1.5× faster', '3× faster (rough)', 'no difference', 'too noisy to tell'; '' without one."""
    known, mark = _known(result), quality(result)
    if known is None:
        return ""
    rough = mark is not None and mark.mark == "rough" and known.verdict != "unsure"
    return f"{_answer(known)} (rough)" if rough else _answer(known)


def _answer(known: Comparison) -> str:
    _, shown, after = HEADLINES[_kind(known)]
    text = f"{shown.format(ratio=figure(known))} {after}".strip()
    return text[:1].lower() + text[1:]


def quality_line(result: RunResult) -> str:
    """'Fair: it rests on 1 process.'; '' without an answer."""
    known = quality(result)
    return f"{known.mark.capitalize()}: {known.reason}." if known is not None else ""


def caveat(result: RunResult) -> str:
    """The caveat that a reader must not miss: the first of `IMPORTANT` that the result has; '' without one."""
    texts = {one.key: str(one) for one in reversed(result.caveats)}
    return next((texts[key] for key in IMPORTANT if key in texts), "")


def speedup(result: RunResult) -> str:
    """The speed-up in short where it is known: '1.44×', of a loss '0.80×'; else `answer`."""
    known = _known(result)
    if known is not None and outcome(result) in ("faster", "slower"):
        return fmt.estimate(known.ratio, known.low, known.high)
    return answer(result)


def speedup_in_full(result: RunResult) -> str:
    """'1.44× (1.41 to 1.45×)', 'too noisy to tell (0.90 to 1.90×)'; '' without one."""
    known = _known(result)
    return "" if known is None else with_ends(speedup(result), known)


def without_breaks(result: RunResult) -> str:
    """'Without the added breaks, stored: 1.45× (1.41 to 1.49×)'; '' if the history had no such run."""
    known = result.without_breaks
    if known is None:
        return ""
    decided = known.verdict in ("faster", "slower")
    text = fmt.estimate(known.ratio, known.low, known.high) if decided else _answer(known)
    return f"Without the added breaks, stored: {with_ends(text, known)}"


def with_ends(text: str, interval: stats.Interval) -> str:
    """'1.44× (1.41 to 1.45×)'."""
    return f"{text} ({fmt.ends(interval.low, interval.high)})"


def interval(result: RunResult) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence, from 3 processes'; '' without a speed-up.

    Of a loss it is the slow-down, which has more digits than 0.10×.
    """
    known = result.speedup
    if known is None:
        return ""
    gain = f"speed-up {fmt.ends(known.low, known.high)}"
    loss = f"slow-down {fmt.ends(1 / known.high, 1 / known.low)}"
    return f"{loss if known.verdict == 'slower' else gain}, 95 % confidence, {basis(known)}"


def basis(known: Comparison) -> str:
    """What the interval rests on: 'from 3 processes, how they differ counted in'."""
    if known.basis == "within one process":
        return "within one process: a rerun may lie outside"
    processes = fmt.count(known.processes, "process")
    if known.processes > 1:
        return f"from {processes}, how they differ counted in"
    return f"from {processes}; that others differ by about {fmt.percent(known.deviation)} is counted in"


def doubts(known: Comparison) -> str:
    """What left the verdict open; '' where nothing did."""
    return OPEN_BECAUSE.get(known.open_because, "").format(floor=fmt.percent(known.floor))


def noise_floor(known: Comparison) -> str:
    """The A/A control: how far eager differs from itself on this machine."""
    if known.control is None:
        return "eager was not timed against itself"
    return f"eager timed against itself: {fmt.percent(known.floor)} apart"


# When compiling pays


def in_one_line(result: RunResult) -> str:
    """'shapes-vit on AMD EPYC: 1.25× (1.24 to 1.26×), compiled against eager (from 3 processes)', to be quoted."""
    if result.speedup is None or not (answer := speedup_in_full(result)):
        return ""
    compiled = "compiled with added graph breaks" if result.spec.graph_break else "compiled"
    about = f"{result.spec.checkpoint} on {naming.where(result)}"
    return f"{about}: {answer}, {compiled} against eager ({basis(result.speedup)})"


def worth(result: RunResult) -> str:
    """'Pays after 18 000 calls from nothing, 4 000 with a kept cache', 'Never pays here'; '' without figures."""
    verdict, compiled = outcome(result), result.compilation
    if verdict is None or compiled is None:
        return ""
    if verdict == "void":
        return "It was recompiled while it was timed: no figure holds"
    if result.parity is not None and result.parity.verdict == "differ":
        return "Compiled gives other outputs than eager: whether it pays is not known"
    if verdict == "unsure":
        return "Whether compiling pays is not known yet"
    paid: list[str] = []
    for state, seconds in compiled.known_costs.items():
        even = result.break_even(seconds) if verdict == "faster" else None
        if even is None or even.calls is None:
            return "Never pays here"
        calls = fmt.two_digits(even.calls if even.answers is None else even.images or 0)
        number = fmt.grouped(calls) if paid else fmt.count(calls, result.main)
        paid.append(f"{number} {start(compiled, state)}")
    return f"Pays after {', '.join(paid)}"


def worth_why(result: RunResult) -> str:
    """'A start takes 28 s from nothing, 1.2 s with a kept cache'; '' where no first call was measured."""
    compiled = result.compilation
    if compiled is None or outcome(result) in (None, "void"):
        return ""
    costs = compiled.known_costs.items()
    return f"A start takes {', '.join(f'{fmt.start_time(one)} {start(compiled, state)}' for state, one in costs)}"


def when_it_pays(result: RunResult) -> list[str]:
    """A sentence for each state of the cache from which a first call was measured."""
    compiled, verdict, texts = result.compilation, outcome(result), list[str]()
    if compiled is None:
        return texts
    for state, seconds in compiled.known_costs.items():
        cost = f"A first call {start(compiled, state)} takes {fmt.start_time(seconds)}"
        even = result.break_even(seconds)
        if even is not None and verdict in ("faster", "slower", "same"):
            pays = even.calls is not None and verdict == "faster"
            cost += f" and pays for itself after {calls_to_pay(even)}" if pays else " and never pays for itself"
        texts.append(fmt.sentence(cost))
    return texts


def start(compiled: Compilation, state: str) -> str:
    """How a process starts, by a key of `known_costs`: 'from nothing', 'with the package kept'."""
    if state == "warm" and compiled.package_bytes is not None:
        return "with the package kept"
    return STARTS[state]


def calls_to_pay(even: BreakEven) -> str:
    """'10 000 to 140 000 calls', 'about 20 000 calls', of a text model tokens, by the interval's ends; 'never'."""
    if even.calls is None or even.low is None:
        return "never"
    thing, each = ("call", 1.0) if even.answers is None else ("token", (even.images or 0) / max(even.calls, 1))
    low = fmt.two_digits(even.low * each)
    if even.high is None:
        return f"{fmt.count(low, thing)} or more"
    high = fmt.two_digits(even.high * each)
    if low == high:
        return f"about {fmt.count(low, thing)}"
    return f"{fmt.grouped(low)} to {fmt.count(high, thing)}"
