"""Finds faults of the page in a browser: errors of a tab, parts outside the window, weak contrast, missing names."""

from typing import Any

LEAVING = "this page is being left"
"""Console message by which a tab tells the test that its page is about to be left."""
CUT_OFF = ("AbortError", "Connection errored out")
"""Words of the errors that gradio logs for requests in progress, when its page is left and it closes its streams."""


def collect_troubles(tab: Any, address: str, troubles: list[str]) -> None:
    """Adds to `troubles` every error that `tab` logs or throws from now on, and every request to another address.

    Call it before the tab opens its first page. Errors with the words of `CUT_OFF` do not count while a page is being
    left, but do on a page that stays.
    """
    leaving = False

    def hear(text: str) -> None:
        if not (leaving and any(words in text for words in CUT_OFF)):
            troubles.append(text)

    def log(message: Any) -> None:
        nonlocal leaving
        if message.text == LEAVING:
            leaving = True
        elif message.type == "error":
            hear(message.text)

    def ask(request: Any) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            troubles.append(request.url)

    def arrive(frame: Any) -> None:
        nonlocal leaving
        if frame == tab.main_frame:
            leaving = False

    tab.add_init_script(f"window.addEventListener('beforeunload', () => console.info('{LEAVING}'))")
    tab.on("console", log)
    tab.on("pageerror", lambda error: hear(str(error)))
    tab.on("framenavigated", arrive)
    tab.on("request", ask)


BEYOND = """() => [...document.querySelectorAll('main *')]
  .filter(part => part.checkVisibility() && part.getBoundingClientRect().width > 1)
  .filter(part => part.getBoundingClientRect().left < -1 || part.getBoundingClientRect().right > innerWidth + 1)
  .filter(part => part.matches('.main-svg') || !part.closest('.js-plotly-plot, .unseen, .fold .icon'))
  .filter(part => {
    for (let frame = part.parentElement; frame; frame = frame.parentElement)
      if (/auto|scroll/.test(getComputedStyle(frame).overflowX) && frame.clientWidth < innerWidth) return false;
    return true;
  })
  .map(part => part.outerHTML.slice(0, 120))
  .concat(document.documentElement.scrollWidth > innerWidth ? ['the page scrolls sideways'] : [])"""
"""JavaScript that returns the HTML of parts beyond the window's edges, unless a frame around them can be scrolled."""

CONTRAST = """() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => colour.map(part => part / 255)
    .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, which) => sum + part * [0.2126, 0.7152, 0.0722][which], 0);
  const behind = part => {
    const colour = numbers(getComputedStyle(part).backgroundColor);
    return colour.length === 3 ? colour : behind(part.parentElement);  // the fourth is an opacity: transparent
  };
  const texts = [...document.querySelectorAll('.js-plotly-plot :is(text, tspan)')];
  return texts.filter(text => text.checkVisibility() && /[\\p{L}\\p{N}]/u.test(text.textContent)).map(text => {
    const plot = text.closest('.js-plotly-plot'), paper = behind(plot);
    let opacity = 1;
    for (let part = text; part !== plot; part = part.parentElement) opacity *= getComputedStyle(part).opacity;
    const ink = numbers(getComputedStyle(text).fill).slice(0, 3)
      .map((part, which) => part * opacity + paper[which] * (1 - opacity));
    const [dim, bright] = [light(ink), light(paper)].sort((one, other) => one - other);
    return [text.textContent, (bright + 0.05) / (dim + 0.05)];
  });
}"""
"""JavaScript that returns [text, contrast] for each text of a chart, since axe-core skips text inside SVG. It skips
signs without a letter or digit: they show a colour that a word beside them names."""
NAMELESS = """() => [...document.querySelectorAll('.js-plotly-plot')].filter(figure => figure.checkVisibility())
  .map(figure => [figure, figure.querySelector('.gtitle')?.textContent.trim(), figure.getAttribute('aria-label')])
  .filter(([figure, title, said]) => !(figure.role === 'img' && title && said?.startsWith(title)))
  .map(([figure, title, said]) => `${title}: ${said}`)"""
"""JavaScript that returns the visible charts whose accessible name does not begin with their title."""
