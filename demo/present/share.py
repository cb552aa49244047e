"""Writes a result as one HTML file to send, which needs no network, no server and no further file.

It has the verdict, the race, the slider for the number of calls, the lines for a user's own code, machine and versions.
Notebooks show the same file. Not covered: predictions and pictures, which may be private.
"""

from html import escape

from ..core import format as fmt
from . import details, naming, race, whole_work
from .report import Report
from .script import change

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The file's Content-Security-Policy: a browser that opens the file loads nothing from any server."""


def page(report: Report, calls: int = whole_work.USUAL_CALLS, rate: str = "") -> str:
    """Returns the HTML file as text, about 30 kB.

    `calls`: the number of calls at which its slider starts. `rate`: as in `whole_work.slider`.
    """
    result = report.result
    choice = whole_work.choice_of(report)
    script = f"<script>{whole_work.file_text('whole_work.js')}</script>" if choice is not None else ""
    figure = "".join(race.picture(report.race, size) for size in ("wide", "narrow"))
    parts = [
        f'<p class="kicker">{escape(_about(report))}</p>',
        f"<h1>{_verdict(report)}</h1>",
        *(f'<p class="{kind}">{escape(fmt.sentence(text))}</p>' for kind, text in _sentences(report) if text),
        f"<figure>{figure}</figure>" if figure else "",
        whole_work.slider(choice, calls, rate),
    ]
    if report.decided or report.kind == "same":
        parts.append(f"<h2>In your own code</h2><pre><code>{escape(change(result.spec))}</code></pre>")
    parts.append(_machine(report))
    body = fmt.printable("".join(parts))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(fmt.printable(report.title))} · Worth compiling?</title>"
        f"<style>{whole_work.file_text('share.css')}</style></head>"
        f'<body class="sent"><main>{body}</main>{script}</body></html>\n'
    )


def frame(report: Report) -> str:
    """Returns the HTML file of a result within an iframe, for a notebook, so that their style sheets do not mix."""
    return (
        f'<iframe srcdoc="{escape(page(report))}" title="{escape(report.title)}" sandbox="allow-scripts" '
        'style="width: 100%; max-width: 56em; height: 62em; border: 0"></iframe>'
    )


def _about(report: Report) -> str:
    result = report.result
    parts = (naming.model(result.spec), naming.run_settings(result), naming.where(result), f"{result.started_at[:10]}")
    return fmt.printable(" · ".join(filter(None, parts)))


def _verdict(report: Report) -> str:
    if report.large is None:
        return escape(fmt.printable(naming.status_words(report.result)))
    before, middle, after = map(escape, report.large)
    return f"{before} <b>{middle}</b> {after}".strip()


def _sentences(report: Report) -> list[tuple[str, str]]:
    """Returns the sentences below the verdict, without full stops: [(CSS class or '', sentence)]."""
    result = report.result
    if report.kind is None:
        failed = result.failure
        return [("", fmt.redact(text).rstrip(".")) for text in ((failed.message, failed.remedy) if failed else ())]
    per = "token" if result.spec.unit == "token" else "call"
    return [
        ("pays", report.pays),
        ("", f"A {per} takes {report.times}, eager → compiled"),
        ("", report.interval_and_basis),
        ("", report.quality_line),
        ("", report.agreement),
        ("", report.caveat.rstrip(".")),
    ]


def _machine(report: Report) -> str:
    part = details.machine(report)
    if part is None:
        return ""
    facts = [(fact.name, fact.value, fact.why) for fact in part.facts]
    facts.append(("Run", report.result.id, f"Started {fmt.minute(report.result.started_at)} UTC."))
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}{f' <small>{escape(why)}</small>' if why else ''}</dd>"
        for name, value, why in facts
    )
    return f"<h2>{escape(part.title)}</h2><dl>{rows}</dl>"
