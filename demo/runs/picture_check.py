"""Checks a visitor's picture in another process, so a hostile file cannot crash the app or fill the app's memory."""

from pathlib import Path

from ..core import format as fmt
from ..core.program import PACKAGE
from .process import child_process, ending

SECONDS = 60.0
"""How long a picture may take to decode. 25 million pixels with 16 bits a channel took 5 s on a busy machine."""


def picture_problem(picture: Path) -> str:
    """Returns why a picture file cannot be read, as sentences; '' if it can, or if no process could be started."""
    try:
        with child_process(f"{PACKAGE}.core.images", str(picture)) as child:
            code = child.exit_code(SECONDS)
            lines = child.output() if code == 0 else []
    except OSError:  # too many processes, or no room: the run says it
        return ""
    if code == 0:
        return "\n".join(lines)
    name = fmt.shorten(fmt.printable(picture.name, kept=""), 80)
    what = f"took more than {SECONDS:.0f} s to decode" if code is None else f"broke its decoder, which {ending(code)}"
    return f"'{name}' {what}. Save it again as PNG or JPEG, or give another picture."
