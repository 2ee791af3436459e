"""Look into a function while it runs on eight devices, and let it ask the host.

Each device finds the cube root of a number of its own. A tap hands every step to a function on the
host, with the device; the devices do not wait for it. Calls come in the order of the program, on
each device and all in all. `pure_callback` is the other way round: the host computes what no
operation does, and the devices go on with it.
"""

import collections
import math

import numpy as np

import gpushard as gs
from gpushard.legacy import barrier_wait, id_tap

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices, no memory in common
STEPS = 6
numbers = np.arange(1.0, 9.0)
seen = collections.defaultdict(list)


def watch(root, transforms, device):
    seen[device].append(float(root))


def cube_root(number):
    root = number
    for _ in range(STEPS):  # Newton's method
        root = (2 * root + number / root**2) / 3
        id_tap(watch, root, tap_with_device=True)
    return root


def checked(numbers, shape):
    """Check a result, and what was seen of each device's number."""
    seen.clear()
    function = cube_root
    for _ in shape:
        function = gs.pmap(function)
    roots = function(numbers.reshape(shape))
    barrier_wait()  # for the taps
    assert np.allclose(roots, np.cbrt(numbers).reshape(shape), rtol=1e-3)
    assert [len(seen[device]) for device in gs.devices()] == [STEPS] * 8
    assert [seen[device][-1] for device in gs.devices()] == np.ravel(roots).tolist()


checked(numbers, (8,))
for device, steps in sorted(seen.items(), key=lambda item: item[0].id):
    print(device, *(f"{root:.4f}" for root in steps))
checked(numbers, (4, 2))  # the same in a pmap of a pmap


def log_gamma(x):
    """Return a function of the standard library, of each element."""
    return gs.pure_callback(np.vectorize(math.lgamma), gs.ShapeDtypeStruct(x.shape, x.dtype), x)


total = gs.pmap(lambda x: gs.lax.psum(log_gamma(x + 1), "i"), "i", out_axes=None)(numbers)
assert np.isclose(float(total), sum(math.log(math.factorial(n)) for n in range(1, 9)))
print(f"log(1! 2! ... 8!) = {float(total):.4f}")
