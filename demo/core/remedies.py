"""What to try where a run fails."""

from __future__ import annotations

from typing import Any

from demo.core.spec import OPTIONS, RunSpec


def other_way_to_compile(spec: RunSpec) -> tuple[str, dict[str, Any]]:
    """What to try where compiling fails: in words, and as options at their defaults.

    ('it without freezing or mode lite', both at their defaults); ('another mode', {}) where nothing but the default way
    to compile was asked for.
    """
    asked = {
        name: value
        for name, value in spec.departures().items()
        if name == "mode" or (OPTIONS[name].fold == "compile" and not OPTIONS[name].timing)
    }
    if not asked:
        return "another mode", {}
    words = [name.replace("_", " ") if value is True else f"{name} {value}" for name, value in asked.items()]
    return f"it without {' or '.join(words)}", {name: OPTIONS[name].default for name in asked}
