"""What an engineer takes home from a run: whether compiling is worth it, and from when on."""

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.present.sentences import calls_to_pay, cost_key, outcome

START = {
    "cold": "Each start costs {time}: the first call, with an empty compile cache",
    "warm": "Each start costs {time}: the first call, with a filled compile cache",
    "built": "Each start costs {time}: building the package and calling it once",
    "loaded": "Each start costs {time}: loading the package and calling it once",
}


def worth(result: RunResult) -> str:
    """'Worth it from about 20 000 calls after each start' (see `start_seconds`), 'Not worth it here' or 'Not known yet:
    ...'; '' without figures."""
    verdict, start = outcome(result), start_seconds(result)
    if start is None or verdict is None:
        return ""
    if _differs(result):
        return "Not known yet: compiled gives other outputs than eager"
    if verdict in ("void", "unsure"):
        return (
            "Not known yet: the model was recompiled while it was timed"
            if verdict == "void"
            else "Not known yet: this run cannot tell whether compiled is faster"
        )
    even = result.break_even(start) if verdict == "faster" else None
    if even is None or even.calls is None:
        return "Not worth it here"
    return f"Worth it from {calls_to_pay(even)} after each start"


def worth_why(result: RunResult) -> str:
    """What each start costs, and from which state of the compile cache; '' where `worth` does not rest on it."""
    compiled, start = result.compilation, start_seconds(result)
    if compiled is None or start is None or outcome(result) not in ("faster", "slower", "same") or _differs(result):
        return ""
    *_, cache = compiled.known_costs
    if cache == "partly":
        told = f"Each start costs {fmt.start_time(start)}: the first call, with a partly filled compile cache"
        return told
    return START[cost_key(compiled, cache)].format(time=fmt.start_time(start))


def _differs(result: RunResult) -> bool:
    return result.parity is not None and result.parity.verdict == "differ"


def start_seconds(result: RunResult) -> float | None:
    """What one start of a process costs: the first call from a filled cache, or of a loaded package, where measured."""
    costs = result.compilation.known_costs if result.compilation is not None else {}
    return [*costs.values()][-1] if costs else None
