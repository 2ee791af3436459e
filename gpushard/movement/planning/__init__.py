"""Pure functions that make plans of copies.

dims            where the elements of a dim come from, cut at block edges
maps            the same of whole arrays: NumPy's rearrangements as numbers
digits          blocks as boxes of a space whose axes are the digits of coordinates
holders         which blocks each memory domain holds and wants, and how these overlap
aliasing        what needs no copy
copies          who copies what from whom; `broadcast_tree`: what is passed on by receivers
strided         copies as places in memory
reshard, rearrange, update, windows     the plans
"""
