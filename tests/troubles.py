"""What a browser's tab complains of."""

from typing import Any

LEAVING = "this page is being left"
"""What the tab says to itself, as an ordinary message, before any listener of the page hears that it is left."""
CUT_OFF = ("AbortError", "Connection errored out")
"""What gradio says of answers that were still under way when it closed its streams because its page is left."""


def heard(tab: Any, address: str | None = None) -> list[str]:
    """Grows with every error that the tab logs or throws from now on; call it before the tab's first page.

    With an address also with what the tab asks of any other one.

    Not with what a page says of answers that it cut off itself because it was being left: on a page that stays, the
    same words are a trouble.
    """
    troubles: list[str] = []
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
        if address is not None and not request.url.startswith((address, "data:", "blob:")):
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
    return troubles
