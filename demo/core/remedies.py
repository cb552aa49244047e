"""What to try where a run fails, in the English that a result keeps; `Language.retold` has it in each language."""

from typing import Any

from demo.core.languages import ENGLISH
from demo.core.spec import OPTIONS, RunSpec

AGAIN = ENGLISH.texts["run_again"]


def other_way_to_compile(spec: RunSpec) -> tuple[str, dict[str, Any]]:
    """What to try where compiling fails: a sentence, and the options that it names, at their defaults.

    ('Without freezing or mode lite it may work.', both at their defaults); of another mode or torch, and {}, where
    nothing but the default way to compile was asked for.
    """
    asked = {
        name: value
        for name, value in spec.departures().items()
        if name == "mode" or (OPTIONS[name].fold == "compile" and not OPTIONS[name].timing)
    }
    if not asked:
        return ENGLISH.plain("remedy_other_mode"), {}
    words = [name.replace("_", " ") if value is True else f"{name} {value}" for name, value in asked.items()]
    change = {name: OPTIONS[name].default for name in asked}
    return ENGLISH.plain("remedy_without", settings=" or ".join(words)), change
