"""Compute PageRank: how often a reader who follows random links is at each page.

The matrix of links is split over rows and columns. `while_loop` repeats the step, one traced
program, until ranks change by less than a tolerance. Only the loop reads from the devices, to see
whether it continues. A step moves vectors, the links stay where they are.
"""

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("to", "from"))
PAGES, FOLLOWED, CLOSE = 400, 0.85, 1e-10

rng = np.random.default_rng(0)
popular = rng.pareto(1.5, PAGES) + 0.1
links = rng.random((PAGES, PAGES)) < 8 * popular[:, None] / popular.sum()  # [to, from]
links[:, ::50] = False  # pages without links: their readers go anywhere
placed = gs.device_put(links, gs.NamedSharding(mesh, P("to", "from")))


@gs.jit
def page_rank(links):
    counts = links.sum(0)
    chance = gnp.where(counts > 0, 1 / gnp.maximum(counts, 1), 0)  # that a link of a page is taken
    matrix = links * chance

    def step(state):
        rank, _, steps = state
        lost = 1 - (rank * (counts > 0)).sum()
        new = FOLLOWED * (matrix @ rank + lost / PAGES) + (1 - FOLLOWED) / PAGES
        return new, abs(new - rank).sum(), steps + 1

    first = gnp.full(PAGES, 1 / PAGES)
    return lax.while_loop(lambda state: state[1] > CLOSE, step, (first, 1.0, 0))


rank, change, steps = page_rank(placed)
with gs.debug.count_traffic() as traffic:
    page_rank(placed)

chance = np.where(links.sum(0) > 0, 1 / np.maximum(links.sum(0), 1), 0)
matrix = FOLLOWED * (links * chance + (links.sum(0) == 0) / PAGES) + (1 - FOLLOWED) / PAGES
exact = np.linalg.solve(np.eye(PAGES) - matrix + 1 / PAGES, np.full(PAGES, 1 / PAGES))
assert np.allclose(matrix @ exact, exact)  # nothing changes any more, and ranks sum to 1
assert np.allclose(rank, exact, atol=1e-9) and float(change) <= CLOSE
each = traffic.bytes_received / int(steps)
assert each < placed.nbytes / 4  # of 8-byte products of the links nothing moves
print(f"{int(steps)} steps until ranks changed by {float(change):.1e}; {each:,.0f} bytes in each")
for page in np.argsort(-np.asarray(rank))[:5]:
    print(f"page {page:3}: {float(rank[page]):.4f}, {links[page].sum()} links to it")
