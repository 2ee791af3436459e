"""What transformed functions see in place of arrays, and the calls in which they see it.

- `traced`: values that have no elements, and what they say when somebody asks for some.
- `frames`: the calls of mapped functions that code runs in, and the named dims of these.
- `mapped`: values with named dims in front, and the interpreter that does operations on them.
- `doors`: how dims of arguments get names, and are dims again in results.
- `relabel`: blocks under other labels: dims that mesh axes split as named dims, without a copy.
- `signature`: arguments and results, leaf by leaf, and their names in errors.
- `captured`: containers around a function, which it may read and not change.
- `scopes`: names that programs give to parts of a function.
"""
