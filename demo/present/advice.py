"""What an engineer takes home from a run: whether to compile, what to try next, and what a month of traffic saves."""

import dataclasses
from typing import Any, NamedTuple

from demo.core import format as fmt, refusals
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, BadInput
from demo.present.script import device
from demo.present.sentences import calls_to_pay, cost_key, named_setting, outcome


def worth(result: RunResult, lang: Language) -> str:
    """'Worth it from about 20 000 calls after each start' (see `start_seconds`), 'Not worth it here' or 'Not known yet:
    ...'; '' without figures."""
    verdict, start = outcome(result), start_seconds(result)
    if start is None or verdict is None:
        return ""
    if _differs(result):
        return lang.plain("worth_differ")
    if verdict in ("void", "unsure"):
        return lang.plain("worth_void" if verdict == "void" else "worth_unknown")
    even = result.break_even(start) if verdict == "faster" else None
    if even is None or even.calls is None:
        return lang.plain("worth_no")
    return lang.composed("worth_from", calls=calls_to_pay(even, lang))


def worth_why(result: RunResult, lang: Language) -> str:
    """What each start costs, and from which state of the compile cache; '' where `worth` does not rest on it."""
    compiled, start = result.compilation, start_seconds(result)
    if compiled is None or start is None or outcome(result) not in ("faster", "slower", "same") or _differs(result):
        return ""
    *_, cache = compiled.known_costs
    if cache == "partly":
        told = f"Each start costs {fmt.start_time(start)}: the first call, with a partly filled compile cache"
        return lang.plain_quoted(told)
    return lang.plain(f"start_{cost_key(compiled, cache)}", time=fmt.start_time(start))


def _differs(result: RunResult) -> bool:
    return result.parity is not None and result.parity.verdict == "differ"


MIN_GAIN = 1.09
"""Two runs of equal ways, each with a spread of 3 % from process to process, differ by less in 95 of 100 pairs."""
MAX_STEPS = 3
CANDIDATES = {
    "cpu": (("freezing", True), ("compiler", "aot")),
    "cuda": (("mode", "reduce-overhead"), ("mode", "max-autotune"), ("compiler", "aot")),
}
"""Ways to compile, by device, to be tried where nothing is known of them."""


class Step(NamedTuple):
    """Something to try next: an option, and why, as a sentence."""

    option: str
    value: Any
    words: str


def next_steps(result: RunResult, lang: Language) -> list[Step]:
    """The ways to compile that brought most here, best first; then those of which nothing is known. A way that is known
    to bring nothing is left out.
    """
    if outcome(result) in (None, "void") or result.gains is None:
        return []

    def step(key: str, option: str, value: Any, **phrases: str) -> Step:
        setting = named_setting(option, value, lang)
        return Step(option, value, lang.composed(key, setting=setting, **phrases))

    steps = []
    for gain in sorted(result.gains, key=lambda gain: -gain.ratio):
        if gain.ratio >= MIN_GAIN and _possible(result, gain.option, gain.value):
            own = gain.checkpoints == (result.spec.checkpoint,)
            where = lang.plain("next_here") if own else lang.plain_value(", ".join(gain.checkpoints[:3]))
            ratio = lang.plain_value(fmt.ratio(gain.ratio))
            steps.append(step("next_gained", gain.option, gain.value, ratio=ratio, where=where))
    known = {(gain.option, gain.value) for gain in result.gains}
    # Of a user's own model no earlier run counts: its file may have changed.
    ways = CANDIDATES[device(result.spec)] if result.spec.task != OWN_MODEL else ()
    untried = [way for way in ways if way not in known and getattr(result.spec, way[0]) != way[1]]
    steps += [step("next_unknown", *way) for way in untried if _possible(result, *way)]
    return steps[:MAX_STEPS]


def _possible(result: RunResult, option: str, value: Any) -> bool:
    """Whether the result's machine could run its spec with this value of the option."""
    try:
        spec = dataclasses.replace(result.spec, **{option: value})
    except (BadInput, TypeError):  # a stored result may hold anything
        return False
    return result.environment is None or refusals.possible(spec, result.environment)


def start_seconds(result: RunResult) -> float | None:
    """What one start of a process costs: the first call from a filled cache, or of a loaded package, where measured."""
    costs = result.compilation.known_costs if result.compilation is not None else {}
    return [*costs.values()][-1] if costs else None


def month(result: RunResult, calls: float, restarts: float, price: float | None, lang: Language) -> str:
    """What compiling saves or costs in 30 days of so many calls and restarts a day, at a price an hour; '' where it is
    not known. Of a text model a call is a whole answer. The page works out the same in the browser."""
    start = start_seconds(result)
    if start is None or outcome(result) not in ("faster", "slower"):
        return ""
    eager, compiled = result.answer_seconds or result.latencies.values()
    saved = 30 * (calls * (eager - compiled) - restarts * start)
    words = lang.plain("traffic_saves" if saved >= 0 else "traffic_costs", time=fmt.work_time(abs(saved)))
    if price is None:
        return words
    return f"{words} {lang.plain('traffic_money', money=f'{abs(saved) / 3600 * price:.2f}')}"
