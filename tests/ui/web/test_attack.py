"""Tests with forged calls of every event: each gets a sentence, and leaves at most one line in the log."""

import json
import logging
import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from support.page_support import answering, serving

from demo.core import limits
from demo.core.options import BadInput
from demo.store.history import History
from demo.ui.page import Page

CALLS, FORGERS = 700, 14
TEXTS = ["", "a", "shapes-vit", "../../etc/passwd", "\x00", "\ud800", "<b>", "1e999", "9" * 400, "é" * 300]
NUMBERS: list[Any] = [0, -1, 1, 1.5, 2**70, 1e308, float("nan"), float("inf"), True, None]


def anything(dice: random.Random, depth: int = 0) -> Any:
    """Returns a random JSON value, or one that only Python's JSON reader accepts, such as NaN."""
    kind = dice.randrange(6 if depth < 3 else 2)
    if kind < 2:
        return dice.choice(TEXTS if kind else NUMBERS)
    if kind == 2:
        return [anything(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind == 3:
        return {dice.choice(TEXTS): anything(dice, depth + 1) for _ in range(dice.randrange(3))}
    path = dice.choice(["/etc/passwd", "http://127.0.0.1:9/a.png", "https://example.invalid/a", "", "a\x00b", 7])
    return {dice.choice(["path", "url"]): path, "meta": {"_type": "gradio.FileData"}, "is_stream": kind == 5}


def forged(dice: random.Random, page: Page, session: str) -> tuple[str, dict[str, Any]]:
    """Returns a route, and for it a body that no page sends: of an event, or of a call of the API."""
    events = list(page.fns.values())
    event = dice.choice(events)
    route = dice.choice(["queue/join"] * 4 + ["run/predict"] * 4 + ["call", "call/v2", "cancel", "reset"])
    values = [block.value if dice.randrange(2) else anything(dice) for block in event.inputs]
    if not dice.randrange(6):
        values = [None for _ in event.inputs]
    if not dice.randrange(4):
        values = values[: dice.randrange(len(values) + 1)] + [anything(dice)] * dice.randrange(3)
    body: dict[str, Any] = {"data": values, "fn_index": event._id, "session_hash": session}
    extra = {
        "event_data": {"index": anything(dice), "value": anything(dice), "row_value": anything(dice)},
        "trigger_id": dice.choice(event.targets)[0] if event.targets else 1,
        **{name: anything(dice) for name in ("event_id", "batched", "simple_format", "oauth_token")},
    }
    body |= {name: value for name, value in extra.items() if not dice.randrange(3)}
    for name in ("data", "event_data", "fn_index", "session_hash", "trigger_id"):
        if not dice.randrange(12):
            body[name] = anything(dice)
    if route.startswith("call"):
        route = f"{route}/{dice.choice([event.api_name, 'benchmark', 'history', 'published', 'best'])}"
        if "v2" in route and dice.randrange(2):
            body = {dice.choice(["checkpoint", "image", "search", "limit", "minutes", "gpu"]): anything(dice)}
    return route, body


def test_forged_calls_are_refused_without_a_traceback(tmp_path, caplog, capfd, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(queue=CALLS, runs_a_visitor=CALLS))
    logging.getLogger("httpx").setLevel(logging.WARNING)
    page = Page(answering(BadInput("It runs nothing.")), history=History(tmp_path / "history.sqlite3"))
    answers: list[tuple[int, str]] = []

    with serving(page) as address, httpx.Client(base_url=f"{address}gradio_api/", timeout=60) as client:

        def attack(forger: int) -> None:
            dice = random.Random(forger)
            for _ in range(CALLS // FORGERS):
                route, body = forged(dice, page, f"forger-{forger}")
                content = json.dumps(body).encode(errors="replace")
                answer = client.post(route, content=content, headers={"Content-Type": "application/json"})
                text = answer.text
                if answer.status_code == 200 and route.startswith("call"):
                    text = client.get(f"{route}/{answer.json()['event_id']}").text
                elif answer.status_code == 200 and route == "queue/join":
                    text = client.get("queue/data", params={"session_hash": body["session_hash"]}).text
                answers.append((answer.status_code, text))

        with ThreadPoolExecutor(FORGERS) as threads:
            list(threads.map(attack, range(FORGERS)))

    log = capfd.readouterr()
    written = log.out + log.err + caplog.text
    assert "Traceback" not in written, written[written.index("Traceback") :][:6000]
    assert [text for _, text in answers if re.search(r"did not expect|site-packages|File \"", text)] == []
    refused = [status for status, _ in answers if status != 200]
    assert all(400 <= status < 500 for status in refused) and CALLS / 10 < len(refused) < CALLS
    assert len(caplog.records) <= len(refused), caplog.text[-3000:]
