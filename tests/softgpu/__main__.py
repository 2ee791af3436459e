"""`python -m tests.softgpu [options] [-- arguments of Python]`: Python on the software GPU."""

from __future__ import annotations

import argparse

from tests.softgpu.build import TOOLKITS
from tests.softgpu.run import Options, replace_process


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.softgpu", description=__doc__)
    parser.add_argument("--seed", type=int, help="let streams run late, in an order by this seed")
    parser.add_argument("--devices", type=int, default=1, help="how many GPUs there are")
    parser.add_argument("--memory", type=int, help="bytes of memory of each GPU")
    parser.add_argument("--no-peers", action="store_true", help="GPUs cannot reach each other")
    parser.add_argument("--no-guard", action="store_true", help="the host may touch device memory")
    parser.add_argument("--cuda", choices=[*TOOLKITS], help="which CUDA it is (12)")
    parser.add_argument("arguments", nargs="*", help="of Python")
    asked = parser.parse_args()
    options = Options(
        seed=asked.seed,
        devices=asked.devices,
        memory=asked.memory,
        peers=not asked.no_peers,
        cuda=asked.cuda,
        guard=not asked.no_guard,
    )
    replace_process(options, asked.arguments)


if __name__ == "__main__":
    main()
