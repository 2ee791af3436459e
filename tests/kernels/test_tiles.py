"""Tiles lie in shared memory so that no two threads of a request meet in a bank."""

from __future__ import annotations

import collections
import subprocess
from pathlib import Path

from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.copy_pieces import SIDES, TILES, WORDS
from tests.kernels.harness import SANITIZERS, build

BANKS = 32
"""Each of 4 bytes; a request is served in as many turns as the busiest bank has words of it."""


def turns(addresses: list[int], word: int) -> int:
    """How often the banks are asked for a warp's request; words of 8 and 16 bytes go in parts."""
    together = 32 * 4 // max(4, word)
    count = 0
    for start in range(0, 32, together):
        rows: dict[int, set[int]] = collections.defaultdict(set)
        for address in addresses[start : start + together]:
            for byte in range(0, word, 4):
                rows[(address + byte) // 4 % BANKS].add((address + byte) // 4)
        count += max(map(len, rows.values()))
    return count


def test_the_model_counts_turns() -> None:
    assert turns([4 * lane for lane in range(32)], 4) == 1
    assert turns([128 * lane for lane in range(32)], 4) == 32
    assert turns([8 * lane for lane in range(32)], 4) == 2
    assert turns([16 * lane for lane in range(32)], 16) == 4
    assert turns([0] * 32, 4) == 1
    assert turns([65 * lane for lane in range(32)], 1) == 2, "rows of 64 bytes and one for padding"


def test_no_request_of_a_tile_takes_more_turns_than_its_bytes(tmp_path: Path) -> None:
    program = build("tiles", SANITIZERS[0], tmp_path)
    done = subprocess.run([program], capture_output=True, check=True, text=True)
    tiles = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    sides = {}
    for word, each, along2, along3, row, plane in tiles:
        form, unit = (WORDS, word // each) if each > 1 else (TILES, word)
        sides[form, unit] = along2 * each, along3 * each
        least = max(4, word) // 4
        for warp in range(THREADS // 32):
            threads = range(32 * warp, 32 * warp + 32)
            for j in range(each):
                written = [j * plane + t % along2 * row + t // along2 * word for t in threads]
                read = [j * plane + t // along3 * row + t % along3 * word for t in threads]
                assert turns(written, word) == turns(read, word) == least, (word, each)
    assert sides == SIDES
