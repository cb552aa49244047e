"""A picture file from a visitor, read as an upright RGB image or refused with a reason.

Called in the worker's process, before the model: what a hostile file may still do to a decoder, it does there.
Only the decoders named in `FORMATS` are ever reached; Pillow knows forty more, one of which calls Ghostscript.
"""

import hashlib
import io
import re
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from demo.core import format as fmt, limits
from demo.core.base64_images import encode_preview
from demo.core.outputs import ImageInfo
from demo.core.spec import BadInput

FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "GIF", "BMP", "TIFF")
"""Pillow's names of the decoders that may run. The JPEG one also opens MPO, a phone's two pictures in one file."""
DEPTHS = (8, 10, 12, 14, 16)
OTHER_ORDER = {f"{kind};16{a}": f"{kind};16{b}" for kind in ("RGB", "RGBA") for a, b in ("BL", "LB", "NB")}
"""Pillow's names of colours with 16 bits a channel, by that of the other byte order. N is little-endian here."""
MAX_ASPECT = 20
"""Longer side over shorter. Processors that bring the shorter side to 513 pixels make of 20:1 a picture of 5 Mpx, of
20 000:1 one of 5 Gpx."""


def read(path: Path) -> tuple[Image.Image, ImageInfo]:
    """The file as an upright RGB image of 8 bits a channel, and what a stored result keeps of it.

    Transparency is laid on white; of an animation the first frame is taken; 16 bits become 8 (`_load`). Colour profiles
    are ignored, as the processors of the checkpoints ignore them. Pictures of 32-bit integers or floats, which have no
    agreed white, are refused.

    Raises `BadInput`, naming the file but never its folder, for everything that cannot be read: see `demo.core.limits`
    and `MAX_ASPECT`. The pixel limit is checked on the header, before anything is decoded.
    """
    name = _shown(path)
    data = _bytes(path, name)
    image, note = _decode(data, name)
    return image, ImageInfo(name, *image.size, hashlib.sha256(data).hexdigest(), encode_preview(image), note)


def decode(path: Path) -> Image.Image:
    """The picture alone, as `read` gives it: what a request pays before the processor. Raises BadInput."""
    name = _shown(path)
    return _decode(_bytes(path, name), name)[0]


def _bytes(path: Path, name: str) -> bytes:
    """The file's bytes. Checks first that it is a regular file: opening a pipe would block for ever."""
    most = limits.current().file_bytes
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is a folder, a device or a pipe")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        why = getattr(error, "strerror", None) or "its name is not a valid one"
        raise BadInput(f"The picture file '{name}' cannot be opened: {why}. Check its name and folder.") from None
    if not data:
        raise BadInput(f"'{name}' is empty: it has 0 bytes. Save or download the picture again.")
    if len(data) > most:
        raise BadInput(
            f"'{name}' has {fmt.size(max(status.st_size, len(data)))}, the limit is {fmt.size(most)}. "
            "Save the picture smaller, or as a JPEG."
        )
    return data


_pillow_lock = threading.Lock()


@contextmanager
def _strict_pillow() -> Iterator[None]:
    """Lowers Pillow's limit of pixels to ours, makes its bomb warning an error and silences its other warnings.

    The limit is a global of Pillow and decoders look at it while they open and load (a GIF frame larger than its
    screen, a TIFF tile larger than its picture), so that a check of our own on the header would not be enough.
    """
    with _pillow_lock, warnings.catch_warnings(), mock.patch.object(Image, "MAX_IMAGE_PIXELS", limits.current().pixels):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _decode(data: bytes, name: str) -> tuple[Image.Image, str]:
    """The picture, and what to say of how it was read: '' for nothing."""
    with _strict_pillow():
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _check_shape(image.size, name)
                if image.mode in ("I", "F"):
                    raise BadInput(f"'{name}' has 32 bits a pixel and no agreed white. Save it with 8 or 16 bits.")
                note = _load(image, data, name)
                upright: Image.Image = image
                with suppress(Exception):  # an EXIF block that Pillow cannot read, or rewrite, is ignored
                    upright = ImageOps.exif_transpose(image)
                return _rgb(upright), note
        except BadInput:
            raise
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            most = f"{limits.current().pixels:,}"
            raise BadInput(f"'{name}' has more than {most} pixels, the limit. Resize it and try again.") from None
        except UnidentifiedImageError:
            known, what = ", ".join(FORMATS), "is not a picture that can be read"
            if re.match(rb"....ftyp(hei|hev|mif1|msf1)(?!.{,60}avi[fs])", data, re.DOTALL):
                what = "is a HEIC picture, which is not read here; an iPhone saves JPEGs with Formats: Most Compatible"
            raise BadInput(f"'{name}' {what}. Give one of these: {known}.") from None
        except MemoryError:
            raise BadInput(f"'{name}' needs more memory than there is: decoding it failed. Resize it.") from None
        except Exception:  # Decoders raise a dozen kinds on malformed data, struct.error and IndexError too.
            raise BadInput(
                f"'{name}' is damaged or cut short: decoding it failed. Save or download the picture again."
            ) from None


def _check_shape(size: tuple[int, int], name: str) -> None:
    width, height = size
    if min(size) < 1:
        raise BadInput(f"'{name}' is {width} × {height} pixels: there is nothing in it. Give another picture.")
    if max(size) > MAX_ASPECT * min(size):
        raise BadInput(
            f"'{name}' is {width} × {height} pixels; one side may be at most {MAX_ASPECT} times the other, "
            "because models see a picture as nearly square. Crop it and try again."
        )


def _load(image: ImageFile.ImageFile, data: bytes, name: str) -> str:
    """Decodes, and scales values that fill fewer than their 16 bits. Returns a sentence if their depth was guessed.

    Not covered: grey with transparency, and colours that are opaque by a larger value than theirs.
    """
    tiles = [(tile, tile.args if isinstance(tile.args, tuple) else (tile.args,)) for tile in image.tile]
    raw = tiles[0][1][0] if tiles and tiles[0][1] else ""
    image.load()
    values, grey = np.asarray(image), image.mode.startswith("I;16")
    if raw in OTHER_ORDER and values.max() < 64:
        # Pillow keeps the high byte of a colour. Of the other byte order it keeps what is the low one.
        with Image.open(io.BytesIO(data), formats=FORMATS) as low:
            low.tile = [tile._replace(args=(OTHER_ORDER[raw], *args[1:])) for tile, args in tiles]
            low.load()
            values = values.astype(np.uint16) << 8 | np.asarray(low)
    elif not grey:
        return ""
    most, named = int(values.max()), _named_depth(image, data)
    depth = next(depth for depth in (range(min(named, 16), 17) if named else DEPTHS) if most < 1 << depth)
    values = (values << 16 - depth).astype(values.dtype)  # in the byte order of the picture
    image.frombytes((values if grey else (values >> 8).astype(np.uint8)).tobytes())
    guess = f"'{name}' has 16 bits a channel and no value above {most:,}: it was read as one of {depth} bits."
    return "" if named or depth == 16 or not most else guess


def _named_depth(image: Image.Image, data: bytes) -> int:
    """Bits by a TIFF's MaxSampleValue or BitsPerSample, or a PNG's sBIT, whose values may fill more; 0 if not told."""
    if tags := getattr(image, "tag_v2", {}):
        stored = max(tags.get(258, (16,)))
        return int(max(tags.get(281, (0,)))).bit_length() or (stored if stored < 16 else 0)
    found = re.search(rb"\0\0\0[\1-\4]sBIT(.)", data[: data.find(b"IDAT")], re.DOTALL)
    return found[1][0] if found else 0


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    image = image.convert("RGB")
    image.info.clear()
    return image


def _shown(path: Path) -> str:
    """The file's name for display: unprintable and direction-changing characters replaced, long names cut."""
    return fmt.shortened(fmt.printable(path.name, kept=""), 80)
