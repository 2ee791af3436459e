"""Sums of products over short loops in C, with several sums at once in vector registers.

What is loaded serves all of a block of sums, and each product is added as it is made, rounded once
where the processor can. Vectors are those of GCC and Clang, as wide as the processor's.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpushard._frozen import dataclass

_AT_ONCE = 8
"""Sums that are in registers, a vector each."""

PRELUDE = r"""
#if defined(__AVX512F__)
#define GS_BYTES 64
#elif defined(__AVX__)
#define GS_BYTES 32
#else
#define GS_BYTES 16
#endif
#define GS_VECTOR(T, n) T __attribute__((vector_size(n), aligned(sizeof(T)), may_alias))
#define GS_PRODUCTS(T) \
  typedef GS_VECTOR(T, GS_BYTES) gs_v##T; \
  typedef GS_VECTOR(T, 16) gs_q##T; \
  static inline T gs_sum##T(gs_v##T v) { \
    union { gs_v##T v; gs_q##T q[GS_BYTES / 16]; } x = {v}; \
    gs_q##T s = x.q[0]; \
    for (int n = 1; n < GS_BYTES / 16; n++) s += x.q[n]; \
    T sum = s[0] + s[16 / sizeof(T) / 2]; \
    if (sizeof(T) == 4) sum += s[1] + s[3]; \
    return sum; \
  }
GS_PRODUCTS(float)
GS_PRODUCTS(double)
#define GS_PRODUCT static __attribute__((noinline, optimize("fp-contract=fast"))) void
"""


@dataclass(frozen=True)
class Product:
    """Sums of products over loops of known lengths, and over lanes if both factors have these."""

    name: str  # of the function
    type: str  # of everything: float or double
    lanes: int  # elements of a strip
    kept: Mapping[int, int]  # loops that the sums have, and their lengths
    reduced: Mapping[int, int]  # loops that are added over
    x: Mapping[int, int]  # distance of neighbours along each loop that it has
    y: Mapping[int, int]
    to: Mapping[int, int]
    across: bool  # whether lanes are added over, of both; else they are those of `x` and the sums
    factors: tuple[int, int]  # places of x and y


def product_source(product: Product) -> str:
    """Return a function of two strips of factors, to which sums go or are added."""
    p, t = product, product.type
    of_x = [loop for loop in p.kept if loop in p.x and loop not in p.y]
    of_y = [loop for loop in p.kept if loop in p.y and loop not in p.x]
    wanted = [(loop, 4) for loop in of_x[-1:] if p.across]
    wanted += [(loop, _AT_ONCE // 4 if wanted else 4) for loop in of_y[-1:]]
    blocked = {loop: min(n, p.kept[loop]) for loop, n in wanted}
    around = {loop: n for loop, n in p.kept.items() if loop not in blocked}
    lines = [
        f"GS_PRODUCT {p.name}(const {t} *restrict x, const {t} *restrict y, "
        f"{'double' if p.across else t} *restrict to) {{",
        f"enum {{ W = GS_BYTES / sizeof({t}) }};",
        *_loops(around),
    ]
    blocks: list[tuple[dict[int, int], list[str]]] = [({}, [])]  # sizes, and loops around them
    for loop, size in blocked.items():
        n = p.kept[loop]
        steps = [
            (size, f"for (int64_t i{loop} = 0; i{loop} + {size} <= {n}; i{loop} += {size}) {{")
        ]
        if rest := n % size:
            steps.append((rest, f"{{ enum {{ i{loop} = {n - rest} }};"))
        blocks = [
            ({**sizes, loop: count}, [*loops, text])
            for sizes, loops in blocks for count, text in steps
        ]  # fmt: skip
    for sizes, loops in blocks:
        block = _added if p.across else _kept
        lines += [*loops, *block(p, sizes), *["}"] * len(loops)]
    return "\n".join([*lines, *["}"] * len(around), "}", ""])


def _added(p: Product, sizes: Mapping[int, int]) -> list[str]:
    """Return what adds a block of sums over lanes to others."""
    v = f"gs_v{p.type}"
    xs = list(enumerate(_offsets({loop: n for loop, n in sizes.items() if loop in p.x}, p.x)))
    ys = list(enumerate(_offsets({loop: n for loop, n in sizes.items() if loop in p.y}, p.y)))
    pairs = [(i, k) for i, _ in xs for k, _ in ys]
    ends = zip(pairs, _offsets(sizes, p.to), strict=True)
    return [
        f"{v} {', '.join(f'c{i}_{k} = {{0}}' for i, k in pairs)};",
        *_loops(p.reduced),
        f"for (int64_t t = 0; t < {p.lanes}; t += W) {{",
        *[f"const {v} x{n} = *(const {v} *)(x + {_at(p.x)} + t + {at});" for n, at in xs],
        *[f"const {v} y{n} = *(const {v} *)(y + {_at(p.y)} + t + {at});" for n, at in ys],
        *[f"c{i}_{k} += x{i} * y{k};" for i, k in pairs],
        *["}"] * (1 + len(p.reduced)),
        *[f"to[{_at(p.to)} + {at}] += gs_sum{p.type}(c{i}_{k});" for (i, k), at in ends],
    ]


def _kept(p: Product, sizes: Mapping[int, int]) -> list[str]:
    """Return what makes a block of sums for each lane."""
    v = f"gs_v{p.type}"
    ys = list(enumerate(_offsets(sizes, p.y)))
    chunks = range(max(1, _AT_ONCE // len(ys)))
    pairs = [(i, k) for i in chunks for k, _ in ys]
    to = _offsets(sizes, p.to)
    return [
        f"for (int64_t t = 0; t < {p.lanes}; t += {len(chunks)} * W) {{",
        f"{v} {', '.join(f'c{i}_{k} = {{0}}' for i, k in pairs)};",
        *_loops(p.reduced),
        *[f"const {v} x{i} = *(const {v} *)(x + {_at(p.x)} + t + {i} * W);" for i in chunks],
        *[f"const {p.type} y{k} = y[{_at(p.y)} + {at}];" for k, at in ys],
        *[f"c{i}_{k} += x{i} * y{k};" for i, k in pairs],
        *["}"] * len(p.reduced),
        *[f"*({v} *)(to + {_at(p.to)} + t + {i} * W + {to[k]}) = c{i}_{k};" for i, k in pairs],
        "}",
    ]


def _loops(sizes: Mapping[int, int]) -> list[str]:
    return [f"for (int64_t i{loop} = 0; i{loop} < {n}; i{loop}++) {{" for loop, n in sizes.items()]


def _offsets(sizes: Mapping[int, int], strides: Mapping[int, int]) -> list[int]:
    """Return where the elements of a block are, from its first one; the last loop is innermost."""
    offsets = [0]
    for loop, n in sizes.items():
        offsets = [at + i * strides[loop] for at in offsets for i in range(n)]
    return offsets


def _at(strides: Mapping[int, int]) -> str:
    return " + ".join([f"i{loop} * {n}" for loop, n in strides.items()]) or "0"
