"""Makes pictures.md and the files in pictures/: `python docs/pictures.py`."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import gpushard as gs
from gpushard.testing import runtime

HERE = Path(__file__).parent

HEAD = """\
# Pictures of shardings

`gpushard.debug.visualize_array_sharding(x)` prints which devices hold which block of an array.
`gpushard.debug.visualize_sharding(shape, sharding)` prints the same before the array exists.
Notebooks show an array on several devices as such a picture instead of its `repr`. Pictures read
no elements.

- Blocks are drawn to scale, also uneven ones. On a terminal, a block is at least as large as its
  text. The numbers at the lines are the bounds of blocks.
- Devices with replicas of a block are listed in that block.
- Of an array with more than two dims, the last two are drawn, in a panel for each part of the
  others.
- A terminal with colours has one for each device, or for each memory domain if there are several.
  `use_color=False`, or `NO_COLOR` in the environment, turns colours off. `color_map` takes color
  maps of matplotlib. `scale`, `min_width` and `max_width` set the size of the picture.
- `gpushard.debug.inspect_array_sharding(tree, callback=f)` calls `f` with the sharding of each
  array.

```python
import gpushard as gs

mesh = gs.make_mesh((2, 2, 2), ("x", "y", "z"))
```
"""

CASES = [
    ("A vector", (16,), 'gs.P(("x", "y", "z"))'),
    ("A matrix, with replicas", (12, 16), 'gs.P("x", "y")'),
    ("A matrix in uneven blocks", (7, 10), 'gs.P(("x", "y"), "z")'),
    ("Three dims", (3, 4, 6), 'gs.P("x", "y", "z")'),
    ("Four dims", (3, 2, 5, 8), 'gs.P("x", "y", None, "z")'),
]


def page() -> dict[str, str]:
    """Return the text of each file, by its path in this folder."""
    files = {}
    parts = [HEAD]
    with runtime(host_devices=8):
        mesh = gs.make_mesh((2, 2, 2), ("x", "y", "z"))
        for number, (title, shape, spec) in enumerate(CASES, 1):
            sharding = gs.NamedSharding(mesh, eval(spec, {"gs": gs}))
            call = f"gs.debug.visualize_sharding({shape}, gs.NamedSharding(mesh, {spec}))"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                gs.debug.visualize_sharding(shape, sharding)
            html = gs.numpy.zeros(shape, out_sharding=sharding)._repr_html_()
            svg = re.search("<svg.*</svg>", html, re.DOTALL)
            assert svg is not None
            files[f"pictures/{number}.svg"] = svg[0] + "\n"
            parts.append(f"## {title}\n\n```python\n{call}\n```\n\n```text\n{out.getvalue()}```\n")
            parts.append(f"![{title}, as a notebook shows it](pictures/{number}.svg)\n")
    files["pictures.md"] = "\n".join(parts)
    return files


if __name__ == "__main__":
    for name, text in page().items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(text)
