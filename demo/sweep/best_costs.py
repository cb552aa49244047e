"""How long each way to run a model takes for many calls: data for a search's slider and coloured strips.

A way is how the model is run, such as eager or a compile mode. The interval of its speed-up is that of the search's
table: wider than for a single run, because several ways are compared. The times of its first calls are from its own
runs. Not covered: ways that cannot win, and loading the model, which takes equally long for all ways.
"""

from ..core import format as fmt
from ..core.comparison import WayCost
from ..core.stats import Duration
from ..present.report import STARTS
from ..present.whole_work import Choice, answer
from .best_table import EAGER_WAY, WAYS, BestTable, WayResult
from .best_words import name


def way_choice(table: BestTable) -> Choice | None:
    """Returns the costs of each way that can win: the time of its first call, and of each further call.

    A way is how the model is run, such as eager or a compile mode. Returns None if no cost is known.
    """
    eager = next((row.seconds for row in table.rows if row.way.name == EAGER_WAY), None)
    ranked = [row for row in table.rows if row.rank is not None and row.result is not None]
    if eager is None or not ranked or ranked[0].result is None:
        return None
    newest = ranked[0].result
    each = eager / newest.tokens_a_call
    ranked.sort(key=lambda row: list(WAYS).index(row.way.name))
    starts, unknown = {}, []
    for state in ("cold", "warm"):
        words = STARTS[state]
        known = {name(row.way): cost for row in ranked if (cost := _cost(row, state, each)) is not None}
        if known:
            starts[words] = {EAGER_WAY: WayCost(Duration(0.0, 0.0, 0.0), Duration(each, each, each)), **known}
        left_out = [name(row.way) for row in ranked if name(row.way) not in known]
        if known and left_out:
            unknown.append(f"not counted {words}, because no such start was measured: {', '.join(left_out)}")
    images = newest.spec.batch_size if newest.spec.sees_picture else 1
    return Choice(starts, newest.main, images, newest.tokens_a_call, "; ".join(unknown)) if starts else None


def _cost(row: WayResult, state: str, eager_seconds: float) -> WayCost | None:
    result, speedup = row.result, row.speedup
    if result is None or speedup is None:
        return None
    spec = result.spec
    # Code that inductor cannot cache is compiled again at each start.
    fresh = state == "warm" and spec.compiler == "jit" and not spec.cached
    starts = result.starts
    first = starts.get(state, starts.get("cold", starts.get("partly")) if fresh else None)
    if first is None:
        return None
    call = Duration(eager_seconds / speedup.ratio, eager_seconds / speedup.high, eager_seconds / speedup.low)
    return WayCost(first, Duration(eager_seconds, eager_seconds, eager_seconds) if speedup.verdict == "same" else call)


def sentences(table: BestTable, calls: int) -> list[str]:
    """Returns which way is the best if a process makes `calls` calls: one sentence for each state of the compile cache.

    The states are 'from nothing' (empty) and 'with a kept cache' (filled). A last sentence names the ways whose first
    call is not known. Returns [] if no cost is known.
    """
    choice = way_choice(table)
    if choice is None:
        return []
    answers = [
        f"At {fmt.count(calls, choice.noun)} {start}: {answer(ways, calls)}." for start, ways in choice.starts.items()
    ]
    return [*answers, *([fmt.sentence(choice.doubt)] if choice.doubt else [])]
