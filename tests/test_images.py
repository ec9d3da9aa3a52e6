"""Decoding and the plain view, held to Pillow and to transformers' CLIP processor."""

import contextlib
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from trimtab.errors import TrimtabError
from trimtab.images.decode import decode, rgb_bytes
from trimtab.images.resample import Box, resize, resize_crops
from trimtab.images.views import enough_side, random_crop, resize_shorter_and_crop

PILLOW_FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def photo(height=40, width=60, seed=0):
    """Smooth colors with some grain: what JPEG and resizing are made for."""
    rng = np.random.default_rng(seed)
    rough = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    smooth = np.asarray(rough.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    return np.clip(smooth + rng.integers(-12, 13, smooth.shape), 0, 255).astype(np.uint8)


def encoded(image, format, **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width, height, depth=8, color=2):
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head)


def bomb(width, height):
    return png_header(width, height) + png_chunk(b"IDAT", zlib.compress(bytes(1000))) + png_chunk(b"IEND", b"")


@pytest.mark.parametrize("format", ["PNG", "BMP", "PPM", "TIFF"])
def test_lossless_formats_come_back_exactly(format):
    assert np.array_equal(decode(encoded(Image.fromarray(photo()), format)), photo())


@pytest.mark.parametrize("format", ["JPEG", "WEBP"])
def test_lossy_formats_come_back_nearly(format):
    decoded = decode(encoded(Image.fromarray(photo()), format, quality=95)).astype(int)
    assert decoded.shape == (40, 60, 3)
    assert np.abs(decoded - photo()).mean() < 6


def test_paths_and_bytes_give_the_same(tmp_path):
    file = tmp_path / "a.png"
    Image.fromarray(photo()).save(file)
    assert np.array_equal(decode(file), decode(file.read_bytes()))
    assert np.array_equal(decode(str(file)), photo())


@pytest.mark.parametrize(("orientation", "upright"), [(1, 0), (3, 2), (6, 3), (8, 1)])
def test_exif_orientation_is_applied(orientation, upright):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(photo()), "PNG", exif=exif)
    assert np.array_equal(decode(data), np.rot90(photo(), upright))


def test_palette_with_and_without_transparency():
    indexed = Image.new("P", (2, 1))
    indexed.putpalette([10, 20, 30, 200, 0, 0])
    indexed.putdata([0, 1])
    assert decode(encoded(indexed, "PNG")).tolist() == [[[10, 20, 30], [200, 0, 0]]]
    assert decode(encoded(indexed, "PNG", transparency=1)).tolist() == [[[10, 20, 30], [255, 255, 255]]]


def test_alpha_goes_on_white():
    clear = Image.fromarray(np.array([[[0, 0, 0, 0], [0, 0, 0, 255], [100, 0, 0, 128]]], dtype=np.uint8), "RGBA")
    pixels = decode(encoded(clear, "PNG"))[0].astype(int)
    assert pixels[0].tolist() == [255, 255, 255]
    assert pixels[1].tolist() == [0, 0, 0]
    assert np.abs(pixels[2] - [177, 127, 127]).max() <= 1
    gray = Image.fromarray(np.array([[[0, 0], [40, 255]]], dtype=np.uint8), "LA")
    assert decode(encoded(gray, "PNG")).tolist() == [[[255] * 3, [40] * 3]]


def test_cmyk_jpeg_becomes_rgb():
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    pixels = decode(encoded(red, "JPEG", quality=95))
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 4


def test_sixteen_bits_are_scaled_not_clipped():
    ramp = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    assert decode(encoded(Image.fromarray(ramp), "PNG"))[0, :, 0].tolist() == [0, 1, 128, 255]
    rows = b"\0" + b"".join(struct.pack(">HHH", value, 0, 65535) for value in (0, 25700))
    data = png_header(2, 1, depth=16) + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")
    assert decode(data).tolist() == [[[0, 0, 255], [100, 0, 255]]]


def test_one_bit_and_gray_images():
    assert decode(encoded(Image.new("1", (3, 2), 1), "PNG")).tolist() == [[[255] * 3] * 3] * 2
    assert decode(encoded(Image.new("L", (3, 2), 77), "JPEG")).tolist() == [[[77] * 3] * 3] * 2


def test_first_frame_of_an_animation():
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    for format in ("GIF", "WEBP"):
        data = encoded(frames[0], format, save_all=True, append_images=frames[1:], **{"lossless": True})
        assert decode(data)[0, 0].tolist() == [255, 0, 0]


def test_floating_point_pixels_are_refused():
    with pytest.raises(TrimtabError, match="floating-point"):
        decode(encoded(Image.new("F", (4, 4), 0.5), "TIFF"))
    with pytest.raises(TrimtabError, match="32-bit"):
        rgb_bytes(Image.new("I", (4, 4), 1 << 20))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_truncated_files_are_refused_by_name(tmp_path, format):
    data = encoded(Image.fromarray(photo()), format)
    for kept in (len(data) // 2, 40, 12):
        file = tmp_path / f"cut_{kept}"
        file.write_bytes(data[:kept])
        with pytest.raises(TrimtabError, match=f"cut_{kept}"):
            decode(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an image"),
        (b"hello world, I am a text file", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        (bomb(60000, 60000), "pixels"),
        (bomb(10000, 9000), "pixels"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_foreign_and_bomb_sized_files_are_refused_by_name(tmp_path, content, words):
    file = tmp_path / "odd.jpg"
    file.write_bytes(content)
    with pytest.raises(TrimtabError, match=f"odd.jpg.*{words}"):
        decode(file)


def test_missing_file_and_folder_are_refused_by_name(tmp_path):
    with pytest.raises(TrimtabError, match=r"nowhere\.jpg cannot be read: No such file"):
        decode(tmp_path / "nowhere.jpg")
    with pytest.raises(TrimtabError, match="is a folder; give the name of a file"):
        decode(tmp_path)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_never_raise_anything_else(data):
    whole = bytearray(
        encoded(Image.fromarray(photo(12, 9)), data.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF"])))
    )
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TrimtabError):
        assert decode(bytes(whole)).dtype == np.uint8


sides = st.integers(1, 90)


@given(sides, sides, sides, sides, st.sampled_from(["bicubic", "bilinear"]), st.integers(0, 9))
@settings(max_examples=80, deadline=None)
def test_resizing_is_bit_equal_to_pillow(height, width, new_height, new_width, filter, seed):
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    # Two one-way steps, because Pillow 13 sometimes does the columns first.
    rows_first = Image.fromarray(image).resize((new_width, height), PILLOW_FILTERS[filter])
    expected = np.asarray(rows_first.resize((new_width, new_height), PILLOW_FILTERS[filter]))
    if filter == "bicubic":
        resized = resize(image, new_height, new_width)
    else:
        resized = np.empty((1, new_height, new_width, 3), np.uint8)
        resize_crops(image, [Box(0, 0, height, width)], [False], resized)
    assert np.array_equal(resized.reshape(expected.shape), expected)


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_windows_crops_and_mirrors_are_what_they_say(data):
    image = photo(data.draw(st.integers(2, 50)), data.draw(st.integers(2, 50)))

    def box(height, width):
        top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
        return Box(top, left, data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left)))

    window = box(30, 20)
    expected = cut(resize(image, 30, 20), window)
    assert np.array_equal(resize(image, 30, 20, window=window), expected)
    crops = [box(*image.shape[:2]) for _ in range(3)]
    plain, mirrored, alone = (np.empty((3, 30, 20, 3), np.uint8) for _ in range(3))
    resize_crops(image, crops, [False] * 3, plain)
    resize_crops(image, crops, [True] * 3, mirrored)
    for crop, out in zip(crops, alone, strict=True):
        part = cut(image, crop)
        resize_crops(part, [Box(0, 0, *part.shape[:2])], [False], out[None])
    assert np.array_equal(plain, alone)
    assert np.array_equal(mirrored, plain[:, :, ::-1])


def cut(image, box):
    return image[box.top : box.top + box.height, box.left : box.left + box.width]


@pytest.mark.parametrize("shape", [(375, 500), (500, 333), (224, 224), (32, 32), (225, 901), (61, 47), (1200, 1600)])
def test_plain_view_equals_transformers(shape):
    from transformers import CLIPImageProcessorPil

    image = photo(*shape)
    processor = CLIPImageProcessorPil(do_rescale=False, do_normalize=False)
    theirs = np.asarray(processor(Image.fromarray(image), return_tensors="np")["pixel_values"])[0].transpose(1, 2, 0)
    ours = resize_shorter_and_crop(image, 224)
    assert ours.shape == (224, 224, 3)
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1


def test_plain_view_of_extreme_shapes():
    for shape in [(1, 1), (1, 3000), (3000, 1), (2, 7)]:
        view = resize_shorter_and_crop(np.full((*shape, 3), 9, dtype=np.uint8), 64)
        assert view.shape == (64, 64, 3)
        assert (view == 9).all()


@pytest.mark.parametrize(
    "wrong", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8), "cat.jpg"]
)
def test_wrong_arrays_are_refused(wrong):
    with pytest.raises(TrimtabError, match="An image must"):
        resize_shorter_and_crop(wrong, 32)


def test_no_pillow_reader_outside_the_list_is_reached(tmp_path: Path):
    file = tmp_path / "a.ico"
    Image.new("RGB", (16, 16)).save(file, "ICO")
    with pytest.raises(TrimtabError, match="not an image"):
        decode(file)


def test_a_pillow_image_that_cannot_be_read_is_refused():
    whole = encoded(Image.fromarray(photo()), "JPEG")
    truncated, closed = Image.open(io.BytesIO(whole[: len(whole) // 2])), Image.open(io.BytesIO(whole))
    closed.close()
    for wrong, words in [(truncated, "truncated"), (closed, "closed image")]:
        with pytest.raises(TrimtabError, match=rf"^The Pillow image cannot be decoded \(.*{words}.*leave it out"):
            rgb_bytes(wrong)
    with pytest.raises(TrimtabError, match="at least one pixel"):
        rgb_bytes(Image.new("RGB", (0, 4)))


def test_premultiplied_gray_goes_on_white():
    half = Image.new("LA", (2, 2), (100, 128)).convert("La")
    assert np.abs(rgb_bytes(half).astype(int) - 177).max() <= 1


def jpeg(height, width, **options):
    buffer = io.BytesIO()
    Image.fromarray(photo(height, width)).save(buffer, "JPEG", quality=95, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("shape", "enough", "decoded"),
    [
        ((400, 600), 100, (100, 150)),
        ((400, 600), 101, (200, 300)),
        ((400, 600), 200, (200, 300)),
        ((400, 600), 201, (400, 600)),
        ((801, 1203), 50, (101, 151)),
        ((60, 90), 300, (60, 90)),
    ],
)
def test_large_jpeg_files_are_decoded_smaller_where_enough_remains(shape, enough, decoded):
    small = decode(jpeg(*shape), enough=enough)
    assert small.shape[:2] == decoded
    whole = decode(jpeg(*shape))
    assert whole.shape[:2] == shape
    difference = np.abs(resize(small, 40, 60).astype(int) - resize(whole, 40, 60))
    assert difference.mean() < 3


def test_other_files_and_turned_ones_are_decoded_as_ever():
    exif = Image.Exif()
    exif[0x0112] = 6  # on its side
    assert decode(jpeg(400, 600, exif=exif), enough=200).shape[:2] == (300, 200)
    buffer = io.BytesIO()
    Image.fromarray(photo(400, 600)).save(buffer, "PNG")
    assert np.array_equal(decode(buffer.getvalue(), enough=50), photo(400, 600))


def test_the_smallest_crop_of_a_reduced_image_has_pixels_of_its_own():
    side = enough_side(224)
    smallest = min(
        min(crop.height, crop.width)
        for crop in (random_crop(np.random.default_rng(seed), side, side, (0.08, 1.0)) for seed in range(3000))
    )
    assert 224 <= smallest < 250
