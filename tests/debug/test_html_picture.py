"""What notebooks show of arrays: the grid to scale, and never their data."""

import itertools
import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.pictures import picture
from gpushard._runtime.host.backend import HostBackend
from gpushard.debug.html_picture import _notes, svg
from tests.geometry.test_pictures import CUBE, SPECS

SVG = "{http://www.w3.org/2000/svg}"


@given(st.sampled_from(SPECS), st.lists(st.integers(1, 9), min_size=3, max_size=4))
def test_areas_are_to_scale_and_rectangles_lie_apart(spec: P, shape: list[int]) -> None:
    drawn = picture(NamedSharding(CUBE, spec), tuple(shape))
    rects = list(ET.fromstring(svg(drawn)).iter(f"{SVG}rect"))
    blocks = [block for panel in drawn.panels[:12] for block in panel.blocks]
    assert len(rects) == len(blocks)
    boxes = [[float(r.get(k) or "") for k in ("x", "y", "width", "height")] for r in rects]
    units = [
        w * h / math.prod(b - a for a, b in block.box[-2:])
        for (*_, w, h), block in zip(boxes, blocks, strict=True)
    ]
    assert np.allclose(units, units[0], rtol=1e-3)
    for (x, y, w, h), (u, v, width, height) in itertools.combinations(boxes, 2):
        across, down = min(x + w, u + width) - max(x, u), min(y + h, v + height) - max(y, v)
        assert min(across, down) < 1e-2


@pytest.mark.parametrize(
    ("shape", "aspect"), [((1, 3), 3), ((3, 1), 1 / 3), ((2, 5), 2.5), ((1, 9), 4), ((9, 1), 1 / 4)]
)
def test_an_array_is_drawn_as_wide_and_tall_as_its_dims_up_to_four_times(
    shape: tuple[int, ...], aspect: float
) -> None:
    (rect,) = ET.fromstring(svg(picture(NamedSharding(CUBE, P()), shape))).iter(f"{SVG}rect")
    width, height = float(rect.attrib["width"]), float(rect.attrib["height"])
    assert width / height == pytest.approx(aspect)
    assert max(width, height) == 220


@pytest.mark.parametrize(("shape", "parts"), [((), 1), ((8,), 8), ((1, 8), 8)])
def test_fewer_dims_are_one_row_of_blocks(shape: tuple[int, ...], parts: int) -> None:
    sharding = NamedSharding(Mesh(np.arange(8), "x"), P(*[None, "x"][2 - len(shape) :]))
    rects = list(ET.fromstring(svg(picture(sharding, shape))).iter(f"{SVG}rect"))
    boxes = [tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height")) for r in rects]
    wide, tall = (220, 55) if len(shape) > 1 else (440, 48)
    assert boxes == [(n * wide / parts, 0, wide / parts, tall) for n in range(parts)]


def test_data_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    x = gs.device_put(np.ones((9, 7)), gs.NamedSharding(mesh, gs.P("x", "y")))
    copies: list[object] = []
    monkeypatch.setattr(HostBackend, "copy_boxes", lambda self, *args: copies.append(args))
    with gs.transfer_guard("disallow_explicit"):
        text = x._repr_html_()
    assert not copies
    root = ET.fromstring(text.replace("<br>", ""))
    assert len(list(root.iter(f"{SVG}rect"))) == 6
    assert "without elements: 6-7" in text
    assert "shape=(9, 7), dtype=float64" in text


def test_parts_that_are_left_out_are_counted() -> None:
    for count, said in ((12, []), (13, ["and 1 parts more"]), (16, ["and 4 parts more"])):
        many = NamedSharding(Mesh(np.arange(count), "x"), P("x"))
        assert _notes(picture(many, (count, 4, 4))) == said


@dataclass(frozen=True)
class Gpu:
    id: int
    platform: str = "gpu"


@pytest.mark.parametrize(("count", "text"), [(4, "GPU {}"), (8, "{}"), (22, "{}"), (64, None)])
def test_a_label_that_is_too_wide_is_the_number_or_nothing(count: int, text: str | None) -> None:
    devices = [Gpu(n) for n in range(count)]
    drawn = picture(
        NamedSharding(Mesh(np.array(devices, object), "x"), P(None, "x")), (count, count)
    )
    found = [label.text for label in ET.fromstring(svg(drawn)).iter(f"{SVG}text")]
    width = 220 / count
    wanted = [] if text is None else [text.format(n) for n in range(count)]
    assert found == [label for label in wanted if 7 * len(label) <= width]


@pytest.mark.parametrize(("shape", "spec", "size"), [
    ((44, 14), P(None, "x"), (35, 220)),  # five letters of 7
    ((12, 44), P("x"), (220, 15)),  # a line
])  # fmt: skip
def test_a_label_that_just_fits_is_shown(
    shape: tuple[int, ...], spec: P, size: tuple[int, int]
) -> None:
    devices = [Gpu(n) for n in range(2 if spec[0] is None else 4)]
    root = ET.fromstring(
        svg(picture(NamedSharding(Mesh(np.array(devices, object), "x"), spec), shape))
    )
    boxes = [(float(r.attrib["width"]), float(r.attrib["height"])) for r in root.iter(f"{SVG}rect")]
    assert boxes == [size] * len(devices)
    assert [label.text for label in root.iter(f"{SVG}text")] == [f"GPU {x.id}" for x in devices]


def test_html_cannot_come_from_names() -> None:
    mesh = gs.make_mesh((8,), ("<b>",))
    text = gs.numpy.ones(8, out_sharding=gs.NamedSharding(mesh, gs.P("<b>")))._repr_html_()
    assert "<b>" not in text and "&lt;b&gt;" in text


def test_where_there_is_no_picture_the_repr_is_shown() -> None:
    gone = gs.device_put(np.ones(8), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    gone.delete()
    assert gone._repr_html_() is None
    assert gs.numpy.arange(3)._repr_html_() is None
    assert gs.eval_shape(lambda x: x if x._repr_html_() is None else None, np.ones(8)).shape == (8,)
    keys = gs.random.split(gs.random.key(0), 8)
    keys = gs.device_put(keys, gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    assert "key&lt;fry&gt;" in keys._repr_html_()


def test_shards_of_fewer_dims_are_drawn() -> None:
    x = gs.device_put(np.ones((8, 3)), gs.sharding.PmapSharding.default((8, 3)))
    text = x._repr_html_()
    assert text.count("<rect") == len({*x.devices()})


@pytest.mark.parametrize("shape", [(8,), (8, 4), (8, 4, 4), (24, 4, 4)])
def test_a_picture_has_room_for_all_of_its_blocks(shape: tuple[int, ...]) -> None:
    mesh = Mesh(np.array(list("abcdefgh"), object), ("x",))
    root = ET.fromstring(svg(picture(NamedSharding(mesh, P("x")), shape)))
    left, top, wide, tall = map(float, root.attrib["viewBox"].split())
    boxes = [x.attrib for x in root.iter() if x.tag.endswith("rect")]
    assert boxes
    for box in boxes:
        x, y, width, height = (float(box[name]) for name in ("x", "y", "width", "height"))
        assert left <= x and x + width <= left + wide
        assert top <= y and y + height <= top + tall


def test_notes_are_lines_of_their_own_below_all_blocks() -> None:
    many = NamedSharding(Mesh(np.arange(16), "x"), P("x"))
    drawn = picture(many, (15, 4, 4))  # 12 of 15 parts are shown, and one device has none
    notes = _notes(drawn)
    assert notes == ["and 3 parts more", "without elements: 15"]
    root = ET.fromstring(svg(drawn))
    _, top, _, tall = map(float, root.attrib["viewBox"].split())
    ends = [float(r.attrib["y"]) + float(r.attrib["height"]) for r in root.iter(f"{SVG}rect")]
    lines = {text.text: float(text.attrib["y"]) for text in root.iter(f"{SVG}text")}
    first, second = (lines[note] for note in notes)
    assert max(ends) + 11 <= first <= second - 11  # the size of the font
    assert second <= top + tall
