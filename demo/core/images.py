"""Reads a visitor's picture file as an upright RGB image, or refuses the file with a reason.

It runs in the worker process, before the model is loaded: a hostile file that breaks a decoder breaks nothing else.
"""

import hashlib
import io
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image, ImageOps

from . import format as fmt, limits
from .base64_images import encode_preview
from .files import LFS_POINTER, LFS_REMEDY
from .options import BadInput
from .outputs import ImageInfo

PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "GIF", "BMP", "TIFF")
"""The decoders of Pillow that may run. Pillow has forty more, and its EPS decoder calls Ghostscript."""
NEARLY_WHITE = 250
"""A transparent picture whose channels are all above this, once it lies on white, is a white sheet."""
SHEET = "sheet"
MAX_ASPECT = 20
"""Largest ratio of the longer side to the shorter. If an image processor scales the shorter side to 513 pixels,
a picture of 20:1 gets 5 million pixels, and one of 20 000:1 gets 5 billion."""


def read_picture(path: Path) -> tuple[Image.Image, ImageInfo]:
    """Returns a picture file as an upright RGB image with 8 bits a channel, and the facts that a stored result keeps.

    Transparent parts become white. An animation gives its first frame, a channel of 16 bits its upper 8 bits. Colour
    profiles are ignored, as the checkpoints' image processors do.

    Raises BadInput if the file cannot be read, or exceeds `MAX_ASPECT` or a limit of `demo.core.limits`. The message
    names the file without its folder. The pixels are counted from the file's header, before anything is decoded.
    """
    data, name = _read_file(path)
    image = _decode(data, name)
    sheet = image.info.pop(SHEET, False)
    return image, ImageInfo(name, *image.size, hashlib.sha256(data).hexdigest(), encode_preview(image), sheet)


def decode(path: Path) -> Image.Image:
    """Returns the image that `read_picture` returns, without its `ImageInfo`. Raises BadInput."""
    return _decode(*_read_file(path))


def _read_file(path: Path) -> tuple[bytes, str]:
    """Returns the file's bytes, and its name as messages show it."""
    name = fmt.shorten(fmt.printable(path.name, kept=""), 80)
    most = limits.current().file_bytes
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would block for ever
            raise OSError(None, "it is a folder, a device or a pipe")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        why = getattr(error, "strerror", None) or "its name is not a valid one"
        raise BadInput(f"The picture file '{name}' cannot be opened: {why}. Check its name and folder.") from None
    if not data:
        raise BadInput(f"'{name}' is empty: it has 0 bytes. Save or download the picture again.")
    if data.startswith(LFS_POINTER):
        raise BadInput(f"'{name}' is a Git LFS pointer, not the picture. {LFS_REMEDY}")
    if len(data) > most:
        raise BadInput(
            f"'{name}' has {fmt.size(max(status.st_size, len(data)))}, the limit is {fmt.size(most)}. "
            "Save the picture smaller, or as a JPEG."
        )
    return data, name


_pillow_lock = threading.Lock()


@contextmanager
def _strict_pillow() -> Iterator[None]:
    """Makes Pillow raise an error for a picture above the limit of pixels, and hides all other warnings.

    The limit also holds for what can be larger than the size in the header: a frame of a GIF, or a tile of a TIFF.
    """
    with _pillow_lock, warnings.catch_warnings(), mock.patch.object(Image, "MAX_IMAGE_PIXELS", limits.current().pixels):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _decode(data: bytes, name: str) -> Image.Image:
    with _strict_pillow():
        try:
            with Image.open(io.BytesIO(data), formats=PICTURE_FORMATS) as image:
                _check_shape(image.size, name)
                if image.mode in ("I", "F"):
                    raise BadInput(f"'{name}' has 32 bits a pixel and no agreed white. Save it with 8 or 16 bits.")
                deep = ";16" in f"{image.mode} {image.tile}"
                image.load()
                upright: Image.Image = image
                with suppress(Exception):  # an EXIF block that Pillow cannot read, or rewrite, is ignored
                    upright = ImageOps.exif_transpose(image)
                picture = _rgb(upright)
        except BadInput:
            raise
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            most = f"{limits.current().pixels:,}"
            raise BadInput(f"'{name}' has more than {most} pixels, the limit. Resize it and try again.") from None
        except Exception:  # Decoders raise a dozen kinds on malformed data, struct.error and IndexError too.
            raise BadInput(
                f"'{name}' cannot be read as a picture. Give one of these, neither damaged nor cut short: "
                f"{', '.join(PICTURE_FORMATS)}. Save a HEIC picture of a phone as JPEG."
            ) from None
    if deep and np.asarray(picture).max() < 64:  # 14 bits of 16 reach 63 at most, and look black
        raise BadInput(f"'{name}' has 16 bits a channel, and hardly uses the upper ones. Save it with 8 bits.")
    return picture


def _check_shape(size: tuple[int, int], name: str) -> None:
    width, height = size
    if min(size) < 1:
        raise BadInput(f"'{name}' is {width} × {height} pixels: there is nothing in it. Give another picture.")
    if max(size) > MAX_ASPECT * min(size):
        raise BadInput(
            f"'{name}' is {width} × {height} pixels; one side may be at most {MAX_ASPECT} times the other, "
            "because models see a picture as nearly square. Crop it and try again."
        )


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if transparent := image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    image = image.convert("RGB")
    image.info.clear()
    if transparent and np.asarray(image).min() > NEARLY_WHITE:
        image.info[SHEET] = True
    return image
