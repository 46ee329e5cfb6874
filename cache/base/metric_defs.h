#pragma once

// The one list of metrics: docs/metrics.md, `stoker status` and /metrics are printed from it.
// X(field, kind, prometheus name, unit, meaning). Counters only grow; gauges return to zero when idle unless
// they say what is kept. Names carry their unit, as Prometheus asks.
// clang-format off
#define STOKER_METRICS(X)                                                                                              \
  X(read_requests,          Counter, "stoker_read_requests_total",          "requests", "READ requests answered by the daemon (passthrough reads never reach it)") \
  X(read_hits,              Counter, "stoker_read_hits_total",              "requests", "READ requests whose bytes were all resident") \
  X(read_misses,            Counter, "stoker_read_misses_total",            "requests", "READ requests of which some byte was not resident") \
  X(read_bytes_delivered,   Counter, "stoker_read_delivered_bytes_total",   "bytes",    "bytes the daemon handed to the kernel; passthrough reads are not in it") \
  X(read_bytes_cache,       Counter, "stoker_read_cache_bytes_total",       "bytes",    "delivered bytes that came from the cache") \
  X(read_errors,            Counter, "stoker_read_errors_total",            "requests", "READ requests answered with an error") \
  X(read_waiting,           Gauge,   "stoker_read_waiting",                 "requests", "READ requests waiting for a fetch now") \
  X(ufs_bytes,              Counter, "stoker_ufs_read_bytes_total",         "bytes",    "bytes read from the UFS") \
  X(ufs_reads,              Counter, "stoker_ufs_reads_total",              "requests", "read calls made to the UFS") \
  X(ufs_errors,             Counter, "stoker_ufs_errors_total",             "requests", "UFS calls that failed, metadata included") \
  X(ufs_metadata,           Counter, "stoker_ufs_metadata_total",           "requests", "stat, list, readlink and xattr calls made to the UFS") \
  X(opens,                  Counter, "stoker_opens_total",                  "opens",    "files opened") \
  X(opens_passthrough,      Counter, "stoker_opens_passthrough_total",      "opens",    "opens answered with passthrough") \
  X(open_handles,           Gauge,   "stoker_open_handles",                 "handles",  "file handles open now") \
  X(open_dirs,              Gauge,   "stoker_open_dirs",                    "handles",  "directory handles open now") \
  X(backing_ids,            Gauge,   "stoker_backing_ids",                  "ids",      "passthrough backing ids registered now (kept in an LRU)") \
  X(inodes,                 Gauge,   "stoker_inodes",                       "inodes",   "inodes the kernel knows now (kept until it forgets them)") \
  X(fetch_parts,            Counter, "stoker_fetch_parts_total",            "parts",    "parts fetched from the UFS") \
  X(fetch_demand,           Counter, "stoker_fetch_demand_total",           "parts",    "of these: asked for by a waiting reader") \
  X(fetch_joined,           Counter, "stoker_fetch_joined_total",           "parts",    "wishes that shared a fetch already under way") \
  X(fetch_failed,           Counter, "stoker_fetch_failed_total",           "parts",    "parts whose fetch failed") \
  X(fetch_retries,          Counter, "stoker_fetch_retries_total",          "attempts", "further attempts after a read of the UFS failed") \
  X(fetch_cancelled,        Counter, "stoker_fetch_cancelled_total",        "parts",    "queued fetches dropped because nobody wanted them any more") \
  X(fetch_bypassed,         Counter, "stoker_fetch_bypassed_total",         "parts",    "parts served without being stored (no space, store unavailable)") \
  X(fetch_exact,            Counter, "stoker_fetch_exact_total",            "requests", "reads fetched exactly as asked: no room in the cache, and whole parts had not lasted in memory") \
  X(fetch_queued,           Gauge,   "stoker_fetch_queued",                 "parts",    "fetches waiting for a thread or for budget") \
  X(fetch_in_flight_bytes,  Gauge,   "stoker_fetch_in_flight_bytes",        "bytes",    "bytes reserved from prefetch.budget now") \
  X(prefetch_parts,         Counter, "stoker_prefetch_parts_total",         "parts",    "parts brought in by read-ahead") \
  X(prefetch_useful_bytes,  Counter, "stoker_prefetch_useful_bytes_total",  "bytes",    "read-ahead bytes that a reader asked for later") \
  X(prefetch_wasted_bytes,  Counter, "stoker_prefetch_wasted_bytes_total",  "bytes",    "read-ahead bytes evicted, or left behind at close, that nobody asked for") \
  X(prefetch_stalls,        Counter, "stoker_prefetch_stalls_total",        "requests", "times a reader waited for a fetch already under way") \
  X(warm_files,             Counter, "stoker_warm_files_total",             "files",    "files that warm jobs finished") \
  X(warm_bytes,             Counter, "stoker_warm_bytes_total",             "bytes",    "bytes that warm jobs brought in") \
  X(cache_used_bytes,       Gauge,   "stoker_cache_used_bytes",             "bytes",    "allocated blocks of all objects, open evicted ones included (kept when idle)") \
  X(cache_limit_bytes,      Gauge,   "stoker_cache_limit_bytes",            "bytes",    "cache.size (kept when idle)") \
  X(cache_objects,          Gauge,   "stoker_cache_objects",                "objects",  "objects in the index (kept when idle)") \
  X(cache_complete_objects, Gauge,   "stoker_cache_complete_objects",       "objects",  "of these: whole (kept when idle)") \
  X(cache_pinned_objects,   Gauge,   "stoker_cache_held_objects",           "objects",  "objects held by an open handle, a fetch or a job now") \
  X(cache_committed_parts,  Counter, "stoker_cache_committed_parts_total",  "parts",    "parts committed to the index") \
  X(cache_evicted_objects,  Counter, "stoker_cache_evicted_objects_total",  "objects",  "objects evicted for space") \
  X(cache_evicted_bytes,    Counter, "stoker_cache_evicted_bytes_total",    "bytes",    "allocated bytes of evicted objects") \
  X(cache_evicted_retain,   Counter, "stoker_cache_evicted_retain_total",   "objects",  "of these: chosen while retain decided") \
  X(cache_evicted_lru,      Counter, "stoker_cache_evicted_lru_total",      "objects",  "of these: chosen while lru decided") \
  X(cache_evicted_s3fifo,   Counter, "stoker_cache_evicted_s3fifo_total",   "objects",  "of these: chosen while s3fifo decided") \
  X(cache_refused,          Counter, "stoker_cache_refused_total",          "parts",    "parts not stored because the policy kept what was there") \
  X(cache_policy,           Gauge,   "stoker_cache_policy",                 "policy",   "what decides whom to evict now: 0 retain, 1 lru, 2 s3fifo (kept when idle)") \
  X(cache_policy_switches,  Counter, "stoker_cache_policy_switches_total",  "changes",  "how often auto has chosen another one") \
  X(cache_ghost_hits,       Counter, "stoker_cache_ghost_hits_total",       "objects",  "evicted objects that came back while their name was remembered") \
  X(cache_ghosts,           Gauge,   "stoker_cache_ghosts",                 "names",    "names remembered of objects that need not be in the cache (bounded; kept when idle)") \
  X(cache_no_space,         Counter, "stoker_cache_no_space_total",         "parts",    "parts that found no room even after eviction") \
  X(cache_damaged_parts,    Counter, "stoker_cache_damaged_parts_total",    "parts",    "parts dropped because bytes and checksum differed or could not be read") \
  X(cache_errors,           Counter, "stoker_cache_errors_total",           "errors",   "failed calls on the cache disk or the index") \
  X(meta_queued,            Gauge,   "stoker_metadata_queued",              "requests", "metadata requests waiting for a thread")
// clang-format on
