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

`gpushard.debug.visualize_array_sharding(x)` prints which devices hold which block of an array, and
`gpushard.debug.visualize_sharding(shape, sharding)` does before there is one. Notebooks show the
same as a graphic, in place of the `repr`, for each array on several devices. Neither reads
an element.

- Blocks are drawn to scale, uneven ones too. On a terminal, one that is too small for its text is
  as large as that. The numbers at the lines are where blocks begin and end.
- Devices that hold the same block stand in it together: they hold replicas.
- Of more than two dims the last two are drawn, in one panel for each part of the others.
- On a terminal that has colours, each device has one, or each memory domain where there are
  several. `use_color=False`, or `NO_COLOR` in the environment, turns them off; `color_map` takes
  those of matplotlib. `scale`, `min_width` and `max_width` say how large the picture is.
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
            found = re.search("<svg.*</svg>", html, re.DOTALL)
            assert found is not None
            files[f"pictures/{number}.svg"] = found[0] + "\n"
            parts.append(f"## {title}\n\n```python\n{call}\n```\n\n```text\n{out.getvalue()}```\n")
            parts.append(f"![{title}, as a notebook shows it](pictures/{number}.svg)\n")
    files["pictures.md"] = "\n".join(parts)
    return files


if __name__ == "__main__":
    for name, text in page().items():
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_text(text)
