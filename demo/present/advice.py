"""From when on compiling pays, after a start from nothing and after one with a kept cache."""

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.present.sentences import calls_to_pay, cost_key, count, outcome

STARTS = {
    "cold": "from nothing",
    "warm": "with a kept cache",
    "partly": "from a partly filled cache",
    "built": "from nothing",
    "loaded": "with the package kept",
}
"""How a process starts, by the state of the compile cache or of the package."""

FIRST_CALLS = {
    "cold": "With an empty cache the first call",
    "warm": "With a kept cache the first call",
    "partly": "With a partly filled cache the first call",
    "built": "Building the package and calling it once",
    "loaded": "Loading the package and calling it once",
}


def worth(result: RunResult) -> str:
    """'Pays after 18 000 calls from nothing, 4 000 with a kept cache', 'Never pays here'; '' without figures."""
    verdict, costs = outcome(result), _costs(result)
    if verdict is None or not costs:
        return ""
    if verdict == "void":
        return "It was recompiled while it was timed: no figure holds"
    if result.parity is not None and result.parity.verdict == "differ":
        return "Compiled gives other outputs than eager: whether it pays is not known"
    if verdict == "unsure":
        return "Whether compiling pays is not known yet"
    paid: list[str] = []
    for state, seconds in costs.items():
        even = result.break_even(seconds) if verdict == "faster" else None
        if even is None or even.calls is None:
            return "Never pays here"
        calls = even.calls if even.answers is None else even.images or 0
        number = fmt.two_digits(calls)
        paid.append(f"{count(number, _thing(result)) if not paid else fmt.grouped(number)} {STARTS[state]}")
    return f"Pays after {', '.join(paid)}"


def _thing(result: RunResult) -> str:
    return "token" if result.spec.unit == "token" else "call"


def worth_why(result: RunResult) -> str:
    """'A start takes 28 s from nothing, 1.2 s with a kept cache'; '' where no first call was measured."""
    costs = _costs(result)
    if not costs or outcome(result) in (None, "void"):
        return ""
    return f"A start takes {', '.join(f'{fmt.start_time(one)} {STARTS[state]}' for state, one in costs.items())}"


def _costs(result: RunResult) -> dict[str, float]:
    """Seconds of a first call by the keys of `STARTS`, from nothing first."""
    compiled = result.compilation
    if compiled is None:
        return {}
    return {cost_key(compiled, state): seconds for state, seconds in compiled.known_costs.items()}


def when_it_pays(result: RunResult) -> list[str]:
    """A sentence for each state of the cache from which a first call was measured."""
    compiled, verdict, texts = result.compilation, outcome(result), list[str]()
    if compiled is None:
        return texts
    for cache, seconds in compiled.known_costs.items():
        cost = f"{FIRST_CALLS[cost_key(compiled, cache)]} takes {fmt.start_time(seconds)}"
        even = result.break_even(seconds)
        if even is not None and verdict in ("faster", "slower", "same"):
            pays = even.calls is not None and verdict == "faster"
            after = f"pays for itself after {calls_to_pay(even)}" if pays else "never pays for itself"
            cost += f" and {after}"
        texts.append(fmt.sentence(cost))
    return texts
