"""Checks the stacked engine against the loop engine on a GPU, and times both beside the floor.

Takes under 5 minutes.

python benchmarks/gpu.py [--device cuda:0]
"""

import argparse
import sys
import time

import numpy as np
import torch

from fedgs.bench.engines import SETTINGS, measure_setting, random_work, training_requests
from fedgs.local import LoopEngine, StackedEngine, initial_parameters
from fedgs.requests import Evaluate, Losses


def largest_difference(setting: str, device: str) -> tuple[float, float]:
    """The largest difference of parameters and of losses between the engines, after a round."""
    work = random_work(SETTINGS[setting], "float32")
    theta = initial_parameters(work.model, work.federation, 0)
    requests = [*training_requests(SETTINGS[setting], work, theta, 3)]
    requests += [
        Evaluate(work, theta, "test"),
        Evaluate(work, theta, "validation"),
        Losses(work, theta, np.arange(5), "train"),
    ]
    loop, stacked = (
        [reply for _, reply in sorted(engine.answer(requests), key=lambda pair: pair[0])]
        for engine in (LoopEngine(device), StackedEngine(device))
    )
    parameters = max(
        float((a[0] - b[0]).abs().max()) for a, b in zip(loop[:3], stacked[:3], strict=True)
    )
    losses = max(abs(a.loss - b.loss) for a, b in zip(loop[3:5], stacked[3:5], strict=True))
    return parameters, max(losses, float(np.abs(loop[5] - stacked[5]).max()))


def main() -> int:
    """Print differences and times; 1 where the engines differ, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    device = parser.parse_args().device
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was run")
        return 2
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(torch.cuda.get_device_name(device), "PyTorch", torch.__version__)
    failed = False
    begin = time.perf_counter()
    for setting in SETTINGS:
        parameters, losses = largest_difference(setting, device)
        failed |= not (parameters < 1e-3 and losses < 1e-3)
        print(
            f"{setting}: stacked against loop, largest difference {parameters:.1e} of parameters, "
            f"{losses:.1e} of losses"
        )
        for engine in ("stacked", "loop"):
            row = measure_setting(setting, engine=engine, device=device)
            print(
                f"  {engine}: {1 / row.round_seconds:.1f} rounds/s, "
                f"{row.run_rounds_per_second:.1f} run-rounds/s, "
                f"floor {1 / row.floor_seconds:.1f} rounds/s, {row.peak_megabytes:.0f} MB"
            )
    print(f"{time.perf_counter() - begin:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
