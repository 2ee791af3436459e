"""Watch a function while it runs on eight devices, and let it call the host.

Each device computes the cube root of its own number. A tap passes every step and its device to a
function on the host, and the devices do not wait for it. Calls come in the order of the program,
on each device and overall. With `pure_callback` the devices wait: the host computes a function
that no operation computes, and the devices continue with its result.
"""

import collections
import math

import numpy as np

import gpushard as gs
from gpushard.legacy import barrier_wait, id_tap

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
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
    """Compare the roots with NumPy's, and the steps that the taps saw with the roots."""
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
checked(numbers, (4, 2))  # in a pmap of a pmap


def log_gamma(x):
    """Compute `math.lgamma` of each element, on the host."""
    return gs.pure_callback(np.vectorize(math.lgamma), gs.ShapeDtypeStruct(x.shape, x.dtype), x)


total = gs.pmap(lambda x: gs.lax.psum(log_gamma(x + 1), "i"), "i", out_axes=None)(numbers)
assert np.isclose(float(total), sum(math.log(math.factorial(n)) for n in range(1, 9)))
print(f"log(1! 2! ... 8!) = {float(total):.4f}")
