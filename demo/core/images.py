"""Reads a picture file as an upright RGB image, or refuses the file with a reason.

The page does not decode a visitor's file itself, so a hostile file that crashes a decoder crashes nothing else. The
worker decodes it in a run. Before the run another process does: `python -m demo.core.images FILE` prints why the file
is refused, or nothing. The command line decodes the user's own file, to refuse a wrong file before the run.
"""

import hashlib
import io
import stat
import sys
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
"""A transparent picture counts as all white if every channel, put on a white background, is above this value."""
SHEET = "sheet"
MAX_ASPECT = 20
"""Largest ratio of the longer side to the shorter. If an image processor scales the shorter side to 513 pixels,
a picture of 20:1 gets 5 million pixels, and one of 20 000:1 gets 5 billion."""
DARK = 2**14
"""A picture with 16 bits a channel is dark if all its values are below this, a quarter of the largest possible value.
It may have a camera's 10 to 14 bits, or be a dark photograph."""
WEBP_BYTES = 8
"""Bytes for each pixel that WebP's decoder needs: the picture and its canvas, each with four channels."""
MAX_SAMPLE_VALUE = 281
"""Tag number of the field of a TIFF file that holds the largest value of each channel."""


def read_picture(path: Path) -> tuple[Image.Image, ImageInfo]:
    """Returns a picture file as an upright RGB image with 8 bits a channel, and the facts that a stored result keeps.

    - Transparent parts become white. Of an animation the first frame is taken.
    - With 16 bits a channel, white is the value that the file's metadata name, if it is below 65535 and no pixel is
      above it. Else white is 65535, or for a dark picture (no value reaches `DARK`) the largest value in the picture.
    - Colour profiles are ignored, as the checkpoints' image processors ignore them.

    Raises BadInput if the file cannot be read, or exceeds `MAX_ASPECT` or a limit of `demo.core.limits`. The message
    names the file without its folder. The pixels are counted from the file's header, before anything is decoded.
    """
    data, name = _read_file(path)
    image, white = _decode(data, name)
    sheet, digest = image.info.pop(SHEET, False), hashlib.sha256(data).hexdigest()
    return image, ImageInfo(name, *image.size, digest, encode_preview(image), sheet, white)


def decode(path: Path) -> Image.Image:
    """Returns the image that `read_picture` returns, without its `ImageInfo`. Raises BadInput in the same cases."""
    return _decode(*_read_file(path))[0]


def _read_file(path: Path) -> tuple[bytes, str]:
    """Returns the bytes of the file, and its name as error messages show it. Raises BadInput."""
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
    """Makes Pillow raise an error for a picture with more pixels than `limits` allow, and hides all other warnings.

    The limit also holds for parts that can be larger than the size in the header: a GIF's frame, a TIFF's tile.
    """
    with _pillow_lock, warnings.catch_warnings(), mock.patch.object(Image, "MAX_IMAGE_PIXELS", limits.current().pixels):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _decode(data: bytes, name: str) -> tuple[Image.Image, int | None]:
    """Returns the picture as RGB with 8 bits a channel, and its largest value if `_scale` took it as white, else None.

    Raises BadInput as `read_picture` does. `name`: the file's name for error messages.
    """
    no_memory = f"'{name}' needs more memory to decode than is free. Resize it and try again."
    with _strict_pillow():
        try:
            with Image.open(io.BytesIO(data), formats=PICTURE_FORMATS) as image:
                _check_shape(image.size, name)
                if image.mode in ("I", "F"):
                    raise BadInput(f"'{name}' has 32 bits a pixel and no agreed white. Save it with 8 or 16 bits.")
                deep, named_white = ";16" in f"{image.mode} {image.tile}", _named_white(image, data)
                upright, white = _upright(image), None
            if deep:
                upright, white = _scale(upright, data, named_white)
            return _rgb(upright), white
        except BadInput:
            raise
        except MemoryError:
            raise BadInput(no_memory) from None
        except (Image.DecompressionBombWarning, Image.DecompressionBombError):
            most = f"{limits.current().pixels:,}"
            raise BadInput(f"'{name}' has more than {most} pixels, the limit. Resize it and try again.") from None
        except Exception:  # Decoders raise a dozen kinds on malformed data, struct.error and IndexError too.
            # WebP's decoder does not say that memory ran out, not even for which size.
            if data[8:12] == b"WEBP" and not _is_free(WEBP_BYTES * limits.current().pixels):
                raise BadInput(no_memory) from None
            raise BadInput(
                f"'{name}' cannot be read as a picture. Give one of these, neither damaged nor cut short: "
                f"{', '.join(PICTURE_FORMATS)}. Save a HEIC picture of a phone as JPEG."
            ) from None


def _is_free(count: int) -> bool:
    """Returns whether this process can allocate `count` bytes."""
    try:
        bytearray(count)
    except MemoryError:
        return False
    return True


def _check_shape(size: tuple[int, int], name: str) -> None:
    width, height = size
    if min(size) < 1:
        raise BadInput(f"'{name}' is {width} × {height} pixels: there is nothing in it. Give another picture.")
    if max(size) > MAX_ASPECT * min(size):
        raise BadInput(
            f"'{name}' is {width} × {height} pixels; one side may be at most {MAX_ASPECT} times the other, "
            "because models see a picture as nearly square. Crop it and try again."
        )


def _upright(image: Image.Image) -> Image.Image:
    image.load()
    with suppress(Exception):  # an EXIF block that Pillow cannot read, or rewrite, is ignored
        return ImageOps.exif_transpose(image)
    return image


# 16 bits a channel


def _named_white(image: Image.Image, data: bytes) -> int | None:
    """Returns the channel value that means white, from a TIFF's MaxSampleValue or a PNG's count of significant bits.

    Returns None if the file has no such entry. `data`: the bytes of the file.
    """
    if image.format == "TIFF":
        named = image.tag_v2.get(MAX_SAMPLE_VALUE)  # type: ignore[attr-defined]
        numbers: list[object] = np.atleast_1d(named).tolist()
        return max((number for number in numbers if isinstance(number, int)), default=None)
    at = 8  # behind the signature of a PNG; each chunk has its length, kind, data and checksum
    while image.format == "PNG" and (kind := data[at + 4 : at + 8]) not in (b"", b"IDAT"):
        length = int.from_bytes(data[at : at + 4])
        if kind == b"sBIT":
            return (1 << max(data[at + 8 : at + 8 + length], default=16)) - 1
        at += length + 12
    return None


def _scale(image: Image.Image, data: bytes, named_white: int | None) -> tuple[Image.Image, int | None]:
    """Returns an upright picture with 8 bits a channel instead of 16, and the picture's largest value or None.

    - `data`: the bytes of the picture's file.
    - `named_white`: the 16-bit value that means white according to the file; None if the file does not say.
    - The largest value of the picture is returned if it was taken as white: the file names no usable white, and the
      picture is darker than `DARK`. Otherwise None is returned in its place.
    """
    colours = image.getbands()[:1] if image.mode.startswith(("I", "L")) else image.getbands()[:3]
    values = _sixteen_bits(image, data)[..., : len(colours)]
    largest, white, shown = int(values.max()), 65535, None
    if named_white is not None and largest <= named_white < white:
        white = named_white
    elif 0 < largest < DARK:
        white = shown = largest
    # channel by channel, because the 32-bit numbers of a large picture take much memory
    scaled = (
        (values[..., place].astype(np.uint32) * 256 // (white + 1)).astype(np.uint8) for place in range(len(colours))
    )
    channels = list(map(Image.fromarray, scaled))
    if len(image.getbands()) > len(colours):
        channels.append(image.getchannel("A"))
    return Image.merge(image.mode if len(channels) > 1 else "L", channels), shown


def _sixteen_bits(image: Image.Image, data: bytes) -> np.ndarray:
    """Returns the 16-bit values of the file, [height, width, channels].

    `image`: the picture as Pillow reads it, upright. Pillow keeps only the upper byte of a colour's value. If it
    reads the file once more in the other byte order, it takes the lower byte for the upper one, and keeps it. For
    files that Pillow reads in one byte order only, the lower byte is taken to be zero.
    """
    if image.mode.startswith("I"):
        return np.asarray(image).astype(np.uint16)[..., np.newaxis]
    values = np.asarray(image).astype(np.uint16) << 8
    with suppress(ValueError), Image.open(io.BytesIO(data), formats=PICTURE_FORMATS) as low:
        low.tile = [tile._replace(args=_other_order(tile.args)) for tile in low.tile]
        values |= np.asarray(_upright(low))
    return values


def _other_order(args: str | tuple[object, ...] | None) -> str | tuple[object, ...] | None:
    """Returns the arguments of Pillow's decoder with the byte order reversed: 'RGB;16B' becomes 'RGB;16L'."""
    if args is None:
        return None
    first, *others = (args,) if isinstance(args, str) else args
    raw = str(first)
    ends = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
    swapped = raw[:-1] + ends[raw[-1]]
    return swapped if isinstance(args, str) else (swapped, *others)


def _rgb(image: Image.Image) -> Image.Image:
    if transparent := image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
        transparent = bool(np.asarray(layer)[..., 3].min() < 255)
    image = image.convert("RGB")
    image.info.clear()
    if transparent and np.asarray(image).min() > NEARLY_WHITE:
        image.info[SHEET] = True
    return image


if __name__ == "__main__":
    try:
        decode(Path(sys.argv[1]))
    except BadInput as refusal:
        print(refusal)
