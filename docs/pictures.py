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

`gpushard.debug.visualize_array_sharding(x)` prints a picture of an array. The picture shows which
devices hold which block. `gpushard.debug.visualize_sharding(shape, sharding)` prints the picture
before you create the array. In a notebook, an array on several devices is shown as such a picture
instead of its `repr`. A picture reads no elements of the array.

```python
import gpushard as gs

mesh = gs.make_mesh((2, 2, 2), ("x", "y", "z"))
```

The examples below use this mesh. The image below each example is the picture in a notebook.

- Blocks are drawn to scale, so uneven blocks have different sizes. On a terminal, a block is at
  least as large as its text.
- The numbers along the edges are the bounds of blocks.
- If several devices hold replicas of a block, the block lists all of them.
- If an array has more than two axes, the last two axes are drawn. There is one panel for each part
  of the other axes.
- On a terminal with colours, each device has its own colour. If there are several memory domains,
  each domain has its own colour instead. `use_color=False`, or the environment variable `NO_COLOR`,
  turns colours off. `color_map` takes a colour map of matplotlib.
- `scale`, `min_width` and `max_width` set the size of the picture.

`gpushard.debug.inspect_array_sharding(tree, callback=f)` prints nothing. It calls `f` with the
sharding of each array in `tree`.
"""

CASES = [
    ("A vector", (16,), 'gs.P(("x", "y", "z"))'),
    ("A matrix, with replicas", (12, 16), 'gs.P("x", "y")'),
    ("A matrix in uneven blocks", (7, 10), 'gs.P(("x", "y"), "z")'),
    ("Three axes", (3, 4, 6), 'gs.P("x", "y", "z")'),
    ("Four axes", (3, 2, 5, 8), 'gs.P("x", "y", None, "z")'),
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
