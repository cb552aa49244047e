"""Tests of the tab Run in a real browser with a fake runner: the form, the answer, and what can be done with it."""

import dataclasses
from typing import Any

import pytest
from starlette.routing import compile_path
from support.chromium_page import HEADLINE, LONG, REFUSED, Runner, batch, open_link, run, scroll_width
from support.samples import launching
from support.troubles import collect_troubles

from demo.ui.look import source
from demo.ui.tabs import form, links
from demo.ui.web.guard import PAGE_ROUTES

COUNT_FRAMES = """window.frames_drawn = 0; const frame = window.requestAnimationFrame;
  window.requestAnimationFrame = draw => { window.frames_drawn++; return frame.call(window, draw); };"""


def test_a_page_at_rest_draws_no_frames(tab: Any, address: str) -> None:
    """Frames would take a tenth of a core from a model that is timed. gradio's loading animation draws 60 a second."""
    tab.add_init_script(COUNT_FRAMES)
    open_link(tab, f"{address}?batch_size=2")
    tab.wait_for_timeout(1_000)  # the last updates of the page are drawn
    drawn = tab.evaluate("frames_drawn")
    tab.wait_for_timeout(1_000)
    assert 0 < drawn and tab.evaluate("frames_drawn") - drawn < 10


# ---- the form


PLACES = """() => ['#batch', '#advanced'].map(id => document.querySelector(id).getBoundingClientRect().top)"""


def test_the_form_follows_the_task(tab: Any, address: str) -> None:
    """A text model asks for a prompt. OWL-ViT asks what to look for, and gets a photograph as its picture."""
    open_link(tab, f"{address}?batch_size=4")
    prompt, picture = tab.get_by_label("Prompt"), tab.locator("#picture")
    before = tab.evaluate(PLACES)
    assert picture.is_visible() and not prompt.is_visible()
    tab.get_by_label("Text generation", exact=True).check(force=True)
    tab.get_by_text("shapes-gemma: a small").wait_for()
    assert prompt.is_visible() and not picture.is_visible()
    tab.get_by_role("button", name="The picture shows a", exact=True).click()
    tab.wait_for_function("document.querySelector('#prompt textarea').value === 'The picture shows a'")
    prompt.fill("A long prompt.\n" * 30)
    assert tab.evaluate(PLACES) == pytest.approx(before, abs=0.5)

    field = tab.get_by_label("What to look for")
    assert not field.is_visible()
    tab.get_by_label("Detection", exact=True).check(force=True)
    tab.get_by_text("shapes-rtdetr: a small").wait_for()
    tab.get_by_role("combobox", name="Checkpoint").click()
    tab.get_by_role("option", name="google/owlvit-base-patch32").click()
    field.wait_for()
    tab.locator("#picture img[src$='lion.jpg']").wait_for()
    assert tab.locator("#examples button").last.get_attribute("aria-label") == "Example: tower"


def test_run_stays_in_sight_below_its_forecast(tab: Any, address: str) -> None:
    open_link(tab, f"{address}?mode=reduce-overhead")
    tab.locator("#forecast").get_by_text("which need a GPU").wait_for()
    tab.get_by_role("button", name="Advanced").press("Space")
    tab.get_by_label("Threads").fill("many")
    tab.locator("#forecast").get_by_text("must be a whole number").wait_for()
    for width, height in ((1440, 900), (1280, 720), (1920, 1080)):
        tab.set_viewport_size({"width": width, "height": height})
        box = tab.locator("#actions").bounding_box()
        assert box["y"] + box["height"] <= height


def test_on_a_phone_the_question_comes_first(tab: Any, address: str) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    open_link(tab, f"{address}?batch_size=2")
    parts = ("#top .question", "#race, .recorded", "#task")
    tops = [tab.locator(part).locator("visible=true").first.bounding_box()["y"] for part in parts]
    assert tops == sorted(tops) and tops[1] < 700
    actions = tab.locator("#actions").bounding_box()
    assert actions["y"] + actions["height"] <= 844


def test_control_enter_runs_before_a_field_has_the_focus(tab: Any, address: str) -> None:
    open_link(tab, f"{address}?batch_size=2")
    assert tab.evaluate("document.activeElement === document.body")
    tab.keyboard.press("Control+Enter")
    tab.locator("#top .headline").wait_for()


def test_the_masthead_copies_the_link(tab: Any, address: str) -> None:
    open_link(tab, f"{address}?batch_size=4")
    tab.locator("#forecast [data-query*=batch_size]").wait_for(state="attached")
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied() -> str:
        tab.locator("#masthead").get_by_role("button", name="Copy link").click()
        tab.locator("#masthead").get_by_role("button", name="Copied").wait_for()
        return str(tab.evaluate("navigator.clipboard.readText()"))

    assert copied() == f"{address}?checkpoint=shapes-vit&batch_size=4"
    tab.get_by_role("tab", name="History").click()
    tab.evaluate("document.querySelector('[data-address]').dataset.address = 'https://outer.example/page'")
    tab.locator("#masthead").get_by_role("button", name="Copy link").wait_for()
    assert copied() == "https://outer.example/page?batch_size=4&tab=history"


# ---- a run, and its answer


def test_figures_of_folds_fill_the_stage(shown: Any) -> None:
    title = shown.locator("#stage .fold > button", has_text="Why")
    assert title.get_attribute("aria-expanded") in (None, "false")
    title.press("Enter")
    shown.locator("#figure-trace .main-svg").first.wait_for()
    shown.wait_for_function(
        "wide => document.querySelector('#figure-trace .main-svg').clientWidth > 0.95 * wide",
        arg=shown.locator("#stage").bounding_box()["width"],
    )
    assert scroll_width(shown) == 1440


def test_an_offer_sets_the_mode_and_runs_once(tab: Any, address: str, runner: Runner) -> None:
    """Only a press on the offered link runs: reloading its address, or opening it, starts nothing."""
    offered = dataclasses.replace(launching(0.62, device="auto"), id="launching")
    runner.history.append(offered)
    open_link(tab, f"{address}?run=launching")
    before = len(runner.runs)
    tab.locator("#top a[data-run]").click()
    tab.wait_for_url("**mode=reduce-overhead*")
    tab.locator("#top .headline:not(:has(a[data-run]))").wait_for()
    open_link(tab, f"{address}?mode=reduce-overhead")
    assert [spec.mode for spec in runner.runs[before:]] == ["reduce-overhead"]


def test_the_race_replaces_what_was_shown(shown: Any, runner: Runner) -> None:
    run(shown, REFUSED)
    notice = shown.locator("#notice .problem", has_text="unlucky")
    notice.wait_for()
    assert notice.bounding_box()["y"] < shown.locator("#top .figure").bounding_box()["y"]
    shown.set_viewport_size({"width": 1440, "height": 600})
    batch(shown).fill("1")
    shown.wait_for_function("(window.scrollTo(0, 700), window.scrollY > 600)")
    runner.hold = True
    shown.keyboard.press("Control+Enter")
    shown.locator(".live .narrowing:not(.empty)").wait_for()
    shown.wait_for_function("window.scrollY === 0")
    notice.wait_for(state="hidden")
    assert shown.locator(".live .race:visible polyline").count() == 2
    assert not shown.locator("#top").is_visible() and not shown.locator("#race").is_visible()
    runner.hold = False
    shown.locator("#race .race:visible").wait_for()
    assert not shown.locator(".live").is_visible()


# ---- nothing is lost


IN_FRONT = """() => { const { top } = document.querySelector('#top .headline').getBoundingClientRect();
  return scrollY > 0 && top >= 0 && top < innerHeight / 2; }"""
"""JavaScript that returns whether the answer begins in the upper half of a phone's window, below the form."""


def test_a_run_outlives_a_reload(tab: Any, address: str, troubles: list[str]) -> None:
    open_link(tab, f"{address}?batch_size={LONG}")
    run(tab)
    tab.locator(".live").wait_for()
    open_link(tab)
    tab.locator(".live .steps").wait_for()
    assert tab.locator("#run").is_disabled() and batch(tab).input_value() == str(LONG)

    tab.locator("#cancel").click()
    tab.locator("#top .problem").get_by_text("Cancelled", exact=True).wait_for()

    run(tab, 5)
    tab.locator(HEADLINE, has_text="2.0×").wait_for()
    tab.wait_for_url("**run=*")
    second = tab.context.new_page()  # its storage is emptied: this browser was never here
    collect_troubles(second, address, troubles)
    second.set_viewport_size({"width": 390, "height": 900})
    open_link(second, tab.url)
    second.locator(HEADLINE).wait_for()
    second.wait_for_function(IN_FRONT)
    assert batch(second).input_value() == "5"  # of the run, although the link asks for another one, too
    second.close()


# ---- the routes, and the page around a Space


def test_a_browser_asks_for_the_routes_of_the_page(tab: Any, address: str, runner: Runner) -> None:
    """The guard refuses any other route, so a page that needs another one would log an error."""
    requests: set[tuple[str, str]] = set()
    tab.on("request", lambda request: requests.add((request.method, "/" + request.url.removeprefix(address))))
    open_link(tab, address)
    tab.locator("#form input[type=file]").first.set_input_files(form.photographs()[0])
    tab.locator("#form img[src*=lion]").first.wait_for()
    run(tab, LONG)
    tab.locator("#cancel:not([disabled])").click()
    tab.locator("#run:not([disabled])").wait_for()
    routes = {(method, route) for method, paths in PAGE_ROUTES.items() for route in paths}
    patterns = {(method, compile_path(route)[0]): (method, route) for method, route in routes}
    used = {
        route
        for method, url in requests
        for (allowed, pattern), route in patterns.items()
        if method == allowed and pattern.match(url.partition("?")[0])
    }
    assert used == routes, (routes - used, sorted(requests))


def test_a_space_tells_the_outer_page_which_run_is_shown(chromium: Any) -> None:
    assert messages_to_the_outer_page(chromium, "me-page.hf.space") == ["stage=1&run=0123", "stage=1"]
    assert messages_to_the_outer_page(chromium, "example.org") == []


def messages_to_the_outer_page(chromium: Any, host: str) -> list[str]:
    """Returns the messages that a page of the Hub gets from the page of `host` in its frame, as runs are shown."""
    outer, inner = "https://huggingface.co/spaces/me/page", f"https://{host}/?__theme=dark&stage=1"
    pages = {
        outer: f"<script>told = []; onmessage = event => told.push(event.data)</script><iframe src='{inner}'></iframe>",
        inner: f"<head><script>{source('stage.js')}{source('address.js')}</script></head>",
    }
    context = chromium.new_context()
    context.route("**/*", lambda route: route.fulfill(content_type="text/html", body=pages.get(route.request.url, "")))
    tab = context.new_page()
    tab.goto(outer)
    frame = tab.frames[1]
    frame.evaluate(links.REMEMBER, "0123")
    frame.evaluate(links.SHOW, "")
    frame.evaluate(
        "new Promise(done => setTimeout(() => { parent.postMessage({queryString: 'end'}, '*'); done(); }, 200))"
    )
    tab.wait_for_function("told.length && told.at(-1).queryString === 'end'")
    queries = [message["queryString"] for message in tab.evaluate("told")]
    context.close()
    return queries[:-1]
