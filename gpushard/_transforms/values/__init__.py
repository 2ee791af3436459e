"""The values that transformed functions see in place of arrays, and the calls that they belong to.

- `traced`: values without elements, and the errors that they raise if a function asks for some.
- `frames`: the active calls of mapped functions, and their named dims.
- `mapped`: values with named dims in front, and the interpreter of operations on them.
- `enter_leave`: the way in, where dims of arguments get names, and the way out.
- `labels`: how dims that mesh axes split become named dims.
- `leaves`: the leaves of arguments and results, and their names in errors.
- `mapped_axes`: `in_axes`, and the checks of mapped axes.
- `user_functions`: checks of functions to transform, and wrappers that look like them.
- `captured`: containers around a function, which the function may read but not change.
- `named_scope`: names that users give to parts of a function.
"""
