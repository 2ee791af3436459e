"""Where the software GPU of each version of CUDA is kept."""

from __future__ import annotations

import pytest

from tests.softgpu.build import CUDA, TOOLKITS, find, libraries


def test_versions_of_cuda_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [find(name) for name in TOOLKITS]
    for part in ("environment", "build", "kernels"):
        assert len({getattr(each, part) for each in found}) == len(TOOLKITS)
    names = [{library.soname for library in libraries(each.toolkit)} for each in found]
    assert all("libcublas.so." in " ".join(each) for each in names)
    assert names[0] != names[1]
    for name, each in zip(TOOLKITS, found, strict=True):
        monkeypatch.setenv(CUDA, name)
        assert find() == each
    monkeypatch.delenv(CUDA)
    assert find() == find("12")


def test_other_versions_are_refused() -> None:
    with pytest.raises(SystemExit, match="no software GPU of CUDA 11; try one of 12, 13"):
        find("11")
