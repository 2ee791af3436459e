"""Pure functions that plan copies between devices.

dims            where the elements of a dim come from, cut at block edges
maps            where the elements of an array come from: NumPy's rearrangements as numbers
digits          blocks as boxes of a space; its axes are digits of coordinates
holders         which blocks each memory domain holds and wants, and how these overlap
aliasing        which wanted blocks need no copy
copies          which domain copies which box from which domain
broadcast_tree  boxes that receivers pass on to other receivers
strided         copies as strided places in memory
reshard, rearrange, update, windows     the plans
"""
