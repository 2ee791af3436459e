"""Settings that programs change while they run, by the names of `jax.config`.

`gpushard.config` has the public functions. Other modules register settings here with `offer`.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from gpushard.errors import ConfigurationError, UnknownSettingError


class Option:
    """A setting for all threads that a `with` block can override."""

    __slots__ = ("_here", "get")

    def __init__(self, name: str, default: Any) -> None:
        self._here: ContextVar[Any] = ContextVar(name, default=default)
        self.get: Callable[[], Any] = self._here.get

    def set(self, value: Any) -> None:
        """Change the value for all threads; active `with` blocks keep their own values."""
        self.get = functools.partial(self._here.get, value)

    @contextlib.contextmanager
    def within(self, value: Any) -> Iterator[None]:
        """Override the value in this thread within a `with` block."""
        token = self._here.set(value)
        try:
            yield
        finally:
            self._here.reset(token)


_OFFERED: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {}
"""For each name without "jax_", the functions that read and change its value."""


def offer(name: str, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
    """Let users read and change a value by name.

    Args:
      name: the name of the setting, without "jax_".
      read: a function that returns the value.
      write: a function that changes the value. It raises `ConfigurationError` if the new value is
        invalid.
    """
    _OFFERED[name] = read, write


def offer_flag(name: str, option: Option) -> None:
    """Let users read and change a boolean option by name."""

    def write(value: Any) -> None:
        if value not in (True, False):
            raise ConfigurationError.refusing(name, value, "must be True or False")
        option.set(bool(value))

    offer(name, lambda: option.get(), write)


DISABLE_JIT = Option("disable_jit", False)
"""Whether traced functions run as plain Python, without `jit`."""

LOG_COMPILES = Option("log_compiles", False)
"""Whether `jit` logs each tracing."""

offer_flag("disable_jit", DISABLE_JIT)
offer_flag("log_compiles", LOG_COMPILES)

_FIXED: dict[str, tuple[tuple[Any, ...], str]] = {
    "array": ((True,), "every array is a gpushard.Array; older types are in gpushard.legacy"),
    "check_static_indices": ((False,), "indices out of bounds are clipped, as in JAX"),
    "debug_infs": ((False,), "look for them with gpushard.numpy.isinf(x).any()"),
    "debug_key_reuse": ((False,), "split keys with gpushard.random.split"),
    "debug_nans": ((False,), "look for them with gpushard.numpy.isnan(x).any()"),
    "default_prng_impl": (("threefry2x32",), "keys are always keys of Threefry"),
    "disallow_mesh_context_manager": ((False,), "`with mesh:` is allowed"),
    "enable_custom_prng": ((False,), "make typed keys with gpushard.random.key"),
    "enable_x64": ((True,), "64-bit types are on; name others, such as dtype=numpy.float32"),
    "error_checking_behavior_divide": (("ignore",), "test results with gpushard.numpy.isfinite"),
    "error_checking_behavior_nan": (("ignore",), "test results with gpushard.numpy.isnan"),
    "error_checking_behavior_oob": (("ignore",), 'give mode="fill" to x.at[...].get'),
    "high_dynamic_range_gumbel": ((False,), 'give mode="high" to gpushard.random.gumbel'),
    "legacy_prng_key": (("allow",), "make typed keys with gpushard.random.key"),
    "no_execution": ((False,), "trace with gpushard.eval_shape, which computes nothing"),
    "no_tracing": ((False,), "call functions without gpushard.jit"),
    "numpy_dtype_promotion": (("standard",), "convert operands with x.astype before the operation"),
    "numpy_rank_promotion": (("allow",), "compare x.ndim before the operation"),
    "omnistaging": ((True,), "traced functions record all operations"),
    "pmap_no_rank_reduction": ((False,), "gpushard.shard_map keeps the mapped axis in shards"),
    "random_seed_offset": ((0,), "add it to the seed of gpushard.random.key"),
    "thread_guard": ((False,), "several threads may use an array"),
    "threefry_partitionable": ((True,), "a key gives equal numbers for every sharding"),
}
"""JAX's settings with a fixed value: the accepted values, and what to use instead of others."""

_WITHOUT_EFFECT = frozenset(
    re.findall(
        r"\w+",
        """
    allow_f16_reductions array_garbage_collection_guard auto_pcast backend_target
    bcoo_cusparse_lowering captured_constants_report_frames captured_constants_warn_bytes
    check_proxy_envs check_tracer_leaks compilation_cache_check_contents compilation_cache_dir
    compilation_cache_expect_pgle compilation_cache_include_metadata_in_key
    compilation_cache_max_size compiler_detailed_logging_min_ops compiler_enable_remat_pass
    cpu_collectives_implementation cpu_enable_async_dispatch
    cpu_get_global_topology_timeout_minutes cpu_get_local_topology_timeout_minutes
    cross_host_transfer_socket_address cross_host_transfer_timeout_seconds
    cross_host_transfer_transfer_size cross_host_transport_addresses custom_vjp3
    debug_leaked_clients_on_clear_backends debug_log_modules default_matmul_precision
    disable_bwd_checks disable_most_optimizations disable_vmap_shmap_error distributed_debug
    dump_ir_modes dump_ir_to embedded_constants_max_bytes enable_compilation_cache enable_pgle
    enable_preemption_service enable_recoverability exec_time_optimization_effort
    experimental_unsafe_xla_runtime_errors explain_cache_misses explicit_x64_dtypes
    export_calling_convention_version export_ignore_forward_compatibility
    force_dcn_cross_host_transfers hlo_source_file_canonicalization_regex
    include_debug_info_in_dumps include_full_tracebacks_in_locations log_checkpoint_residuals
    logging_level memory_fitting_effort memory_fitting_level mock_gpu_topology mosaic_allow_hlo
    mutable_array_checks oneapi_visible_devices optimization_level pallas_enable_debug_checks
    pallas_poison_buffers pallas_use_mosaic_gpu pallas_verbose_errors
    persistent_cache_enable_xla_caches persistent_cache_min_compile_time_secs
    persistent_cache_min_entry_size_bytes pgle_aggregation_percentile pgle_profiling_runs
    pjrt_client_create_options pprint_use_color ragged_dot_use_gpu_pallas_triton_lowering
    ragged_dot_use_ragged_dot_instruction raise_persistent_cache_errors refs_to_pins remat3
    remove_custom_partitioning_ptr_from_cache_key remove_size_one_mesh_axis_from_type
    rocm_visible_devices scan3 send_traceback_to_runtime serialization_version
    share_binary_between_hosts share_binary_between_hosts_timeout_ms softmax_custom_jvp
    sort_devices_by_process_index source_url_schema threefry_gpu_kernel_lowering
    traceback_filtering traceback_in_locations_limit tracer_error_num_traceback_frames
    use_direct_linearize use_emit_pipeline_primitive use_magma use_shardy_partitioner
    use_simplified_jaxpr_constants xla_backend xla_profile_version
    """,
    )
)
"""JAX's settings of XLA's compiler and of logging: they have no effect on results."""

_noted: dict[str, Any] = {}


def update(name: str, val: Any) -> None:
    """Change a setting for all threads.

    You can change the fields of `Settings` and the settings of `jax.config`. Change settings of
    devices before you use the first device. Settings of JAX's compiler have no effect.

    Args:
      name: the name of the setting; a prefix "jax_" may be left out.
      val: the new value of the setting.

    Raises:
      UnknownSettingError: there is no such setting.
      ConfigurationError: the value is invalid, or the setting cannot change any more.

    >>> import gpushard as gs
    >>> gs.config.update("jax_log_compiles", True)
    >>> gs.config.jax_log_compiles
    True
    >>> gs.config.update("jax_log_compiles", False)
    """
    plain = _plain(name)
    if plain in _OFFERED:
        _OFFERED[plain][1](val)
    elif plain in _FIXED:
        accepted, instead = _FIXED[plain]
        if val not in accepted:
            raise ConfigurationError.refusing(
                name, val, f"is not supported: it is always {accepted[0]!r}. Try: {instead}"
            )
    else:
        _noted[plain] = val


def read(name: str) -> Any:
    """Return the value of a setting; None for a setting without effect that nobody has set.

    Args:
      name: the setting, with or without "jax_" in front.

    Raises:
      UnknownSettingError: there is no such setting.

    >>> import gpushard as gs
    >>> gs.config.read("jax_enable_x64")
    True
    """
    plain = _plain(name)
    if plain in _OFFERED:
        return _OFFERED[plain][0]()
    return _FIXED[plain][0][0] if plain in _FIXED else _noted.get(plain)


def values() -> Mapping[str, Any]:
    """Return the values of all settings, keyed by the names that JAX uses."""
    names = sorted({*_OFFERED, *_FIXED, *_WITHOUT_EFFECT})
    return {f"jax_{name}": read(name) for name in names}


def _plain(name: str) -> str:
    """Return a name without "jax_".

    Raises:
      UnknownSettingError: there is no such setting.
    """
    if not isinstance(name, str):
        raise UnknownSettingError.refusing("name", name, 'must be a text, such as "jax_platforms"')
    plain = name.removeprefix("jax_")
    known = {*_OFFERED, *_FIXED, *_WITHOUT_EFFECT}
    if plain not in known:
        near = difflib.get_close_matches(plain, sorted(known), 3, 0.5)
        hint = f"such as {', '.join(near)}" if near else "see gpushard.config.values"
        raise UnknownSettingError.refusing("name", name, f"is not a setting; use one, {hint}")
    return plain
