"""What a browser's tab complains of."""

from __future__ import annotations

from typing import Any


def heard(tab: Any) -> list[str]:
    """Grows with every error that the tab logs or throws from now on.

    Not with an AbortError: that is what a browser says of an answer that was still under way when its page was left.
    """
    troubles: list[str] = []

    def hear(text: str) -> None:
        if "AbortError" not in text:
            troubles.append(text)

    tab.on("console", lambda message: hear(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: hear(str(error)))
    return troubles
