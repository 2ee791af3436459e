"""Layer 3: copies between shards. It knows shardings and memory, not the names of operations.

Whatever moves data makes a `Plan`, and one executor runs it:

    buffer            the data of an array: shards and the claims on their memory
    plan              what is allocated, kept, copied and filled, in which steps; data only
    planning          pure functions that make plans
    plan_streams      a plan with what its runtime adds: streams, memory, page-locked slots
    plan_cache        the plans that a runtime keeps
    execute           the executor: the whole peak first, then the steps, then the result
    sharding_devices  the devices of a sharding, as the runtime knows them
    messages          boxes that domains send one another, as GPUs do by NCCL
    staging_slots     the slots of page-locked memory that a plan needs
    host_staging      page-locked memory, through which domains and the host reach one another
    reshard           plans of one array that moves, or of a part of it; the runtime keeps them
    rearrange         plans of several arrays, or of one whose dims are cut into factors
    update            a part of an array replaced, in place or by new blocks; `ownership` says which
    from_host         copies of host data to shards, each of `distinct_blocks` once
    to_host           copies of values to the host
    block_collectives all_reduce, reduce_scatter, all_gather, all_to_all, permute

All raise `OutOfMemoryError` where a device has no room, and then nothing has changed, and
`ShardingError` where arrays and shardings are of different runtimes. Where the host has to wait it
raises `ExecutionError` if the work that should have made a value failed.
"""
