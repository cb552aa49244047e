"""Results as GitHub's Markdown: one run with all that is known of it, several as a table with a line each.

The page shows the sections of a run as they stand here.
"""

import re
from collections.abc import Iterable, Sequence

from demo.core import catalog, format as fmt
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import details, naming, verdict
from demo.present.details import Part

BREAKS = "https://meta-pytorch.github.io/"
"""Where torch explains graph breaks."""
DRAWN_ONLY = (
    "This model knows drawn shapes only, and this picture is not one of its drawn scenes: its predictions may mean "
    "nothing. The timing is valid."
)


def of_run(result: RunResult) -> str:
    """The answer of a run or why it has none, its settings and machine, and every section."""
    if result.failure is not None or result.speedup is None:
        failed = result.failure
        lines = [f"**{naming.status(result)}.**", *((failed.message, failed.remedy) if failed else ())]
        answer = [" ".join([lines[0], *map(escaped, lines[1:])])]
    else:
        worth = [verdict.worth(result), verdict.worth_why(result)]
        more = [verdict.noise_floor(result.speedup), verdict.without_breaks(result), verdict.quality_line(result)]
        said = [f"{speedup(result)}, 95 % confidence, {verdict.basis(result.speedup)}"]
        said += [escaped(text.rstrip(".")) for text in more if text]
        answer = [
            " ".join(map(fmt.sentence, said)),
            " ".join(escaped(fmt.sentence(text)) for text in worth if text),
        ]
    settings = ", ".join([naming.run_line(result), *naming.machine(result), result.started_at[:10]])
    parts = [section(part) for fold in details.tree(result).values() for part in fold.values()]
    below = " ".join([f"{escaped(settings)}.", *map(escaped, of_predictions(result))])
    return "\n\n".join(filter(None, [*answer, below, *parts])) + "\n"


def of_predictions(result: RunResult) -> list[str]:
    """Sentences on the predictions, as plain text: whether they agree, and what to know of them."""
    image = result.image
    beyond = bool(result.predictions) and catalog.is_beyond(result.spec.checkpoint, image.sha256 if image else None)
    texts = details.agreement(result), DRAWN_ONLY if beyond else "", details.text_difference(result)
    return [text for text in texts if text]


def section(part: Part) -> str:
    """A part below its title: sentences, the table, and a line for each row."""
    pieces = [f"#### {escaped(part.title)}"]
    pieces += [escaped(fmt.capital(text)) for text in part.sentences if text]
    if part.table is not None:
        heads, lines = part.table
        cells = [list(map(escaped, line)) for line in lines]
        pieces.append(_table(list(map(escaped, heads)), cells, "l" + "r" * (len(heads) - 1)))
    rows = []
    for name, value, why in part.rows:
        shown = f"[{value[-11:-5].upper()}]({value})" if value.startswith(BREAKS) else value and f"**{escaped(value)}**"
        rows.append(f"- {escaped(name)}: {' · '.join(filter(None, [shown, escaped(why)]))}")
    return "\n\n".join([*pieces, *filter(None, ["\n".join(rows)])])


def speedup(result: RunResult) -> str:
    """'**1.44×** (1.41 to 1.45×)': bold only where it is faster or slower; '' without figures."""
    text = verdict.speedup_in_full(result)
    if verdict.outcome(result) in ("faster", "slower"):
        ratio, _, interval = text.partition(" ")
        return f"**{ratio}** {interval}"
    return text


def of_cells(cells: Iterable[tuple[RunSpec, RunResult | None, str]]) -> str:
    """A line for each cell of a grid: its spec, its result, and the text of a cell without figures, such as 'OOM'."""
    head = ("checkpoint", "settings", "eager", "compiled", "speed-up")
    rows, places = [], []
    for spec, result, value in cells:
        figures = result if result is not None and verdict.outcome(result) is not None else None
        times = map(fmt.latency, figures.latencies.values()) if figures else ("", "")
        answer = speedup(figures) if figures else escaped(value)
        rows.append((escaped(spec.checkpoint), escaped(naming.settings(spec)), *times, answer))
        if result is not None and (machine := naming.machine(result)):
            places.append(", ".join([*machine, result.started_at[:10]]))
    below = [f"{escaped(place)}." for place in dict.fromkeys(places)]
    return "\n".join([_table(head, rows, "llrrr"), "", *below, ""])


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line: no HTML, no list, no formula, no address that becomes a link."""
    line = re.sub(r"([\\`*_{}\[\]<>|#~&$@])", r"\\\1", re.sub(r"[^\S\u00a0\u202f]+", " ", text).strip())
    line = re.sub(r":(?=//)", r"\\:", re.sub(r"(?i)\b(www)\.", r"\1\\.", line))
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$)", r"\1\\\2", line)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> str:
    """`columns` has an 'l' or an 'r' for each column: its alignment."""
    rules = ["--:" if column == "r" else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rules, *rows))
