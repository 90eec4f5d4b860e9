"""What somebody meant by a key that does not exist: a slip, or another system's word for it."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from detent.errors import ConfigError

Keys = Mapping[str, Sequence[str]]
"""The valid keys of each section."""

# Names from Ratchet, Forge, Quartz and other schedulers, without units and in snake case.
_OTHER_NAMES: Final = {
    "store.url": (
        "database_url",
        "db_url",
        "dsn",
        "uri",
        "conninfo",
        "connection_string",
        "broker_url",
        "broker",
        "database.url",
        "datasource.url",
        "job_store_url",
    ),
    "store.schema": ("schema_name", "table_prefix", "search_path", "namespace", "database.schema"),
    "store.pool_size": ("database.pool_size", "database.max_connections", "max_connections"),
    "store.pooler": ("pgbouncer", "pg_bouncer"),
    "store.timeout": ("statement_timeout", "query_timeout", "database.statement_timeout"),
    "store.priority_boost_interval": ("boost_interval", "priority_boost", "aging_interval"),
    "store.auto_migrate": ("migrate", "run_migrations", "migrate_on_start"),
    "node.name": ("node_id", "instance_id", "instance_name", "scheduler_name", "hostname"),
    "node.capabilities": ("worker_capabilities", "labels"),
    "node.queues": ("queue", "queue_names", "worker.queues", "worker_queues"),
    "node.concurrency": (
        "worker_count",
        "workers",
        "max_workers",
        "num_workers",
        "max_concurrent",
        "max_concurrent_jobs",
        "max_concurrency",
        "worker_concurrency",
        "pool.size",
        "node.pool_size",
        "worker.pool_size",
        "worker.concurrency",
        "executor_pool.size",
    ),
    "node.threads": (
        "thread_count",
        "max_threads",
        "thread_pool_size",
        "thread_pool.size",
        "thread_pool.thread_count",
    ),
    "node.claim_batch": (
        "batch_size",
        "claim_batch_size",
        "batch_trigger_acquisition_max_count",
        "prefetch",
        "prefetch_count",
        "prefetch_multiplier",
        "fetch_limit",
    ),
    "node.drain_timeout": (
        "shutdown_timeout",
        "shutdown_grace_period",
        "graceful_shutdown_timeout",
        "stop_timeout",
    ),
    "polling.minimum": (
        "poll_interval",
        "polling_interval",
        "min_interval",
        "min_poll_interval",
        "idle_wait_time",
        "fetch_poll_interval",
        "fetch_cooldown",
        "polling.interval",
    ),
    "polling.maximum": ("max_interval", "max_poll_interval"),
    "polling.burst": ("burst_interval",),
    "polling.burst_polls": ("idle_threshold",),
    "polling.deep_idle": ("deep_idle_interval",),
    "polling.deep_idle_after": ("deep_idle_threshold",),
    "wakeup.enabled": ("listen_notify", "notify", "use_notify", "wakeups", "listen"),
    "wakeup.url": ("redis_url", "broker_url", "notifier", "direct_url", "cluster_coordinator"),
    "wakeup.triggers": ("wakeup_triggers",),
    "cluster.heartbeat_interval": (
        "heartbeat",
        "checkin_interval",
        "cluster_checkin_interval",
        "cluster.interval",
    ),
    "cluster.lease": (
        "heartbeat_timeout",
        "dead_threshold",
        "lease_duration",
        "lease_timeout",
        "visibility_timeout",
        "stale_threshold",
    ),
    "retention.succeeded": (
        "completed",
        "retention.success",
        "retention.finished",
        "retention.keep",
        "retention.max_age",
        "completed_retention",
        "completed_job_retention_period",
        "retention_period",
        "job_ttl",
        "archive_retention",
    ),
    "retention.failed": (
        "discarded",
        "dead_letter",
        "dead_letter_retention",
        "discarded_job_retention_period",
        "dlq_purge_retention",
    ),
    "retention.canceled": ("cancelled", "cancelled_job_retention_period"),
    "retention.interval": ("prune_interval", "cleanup_interval", "retention.sweep_interval"),
    "retention.page": ("page_size", "prune_batch_size", "retention.limit", "retention.batch"),
    "retention.archive_keep": ("archive_max_age", "archive_purge"),
    "schedules.misfire_threshold": ("misfire", "job_store_misfire_threshold"),
    "schedules.grace": ("startup_grace", "convergence_window", "orphan_grace"),
    "policy.allow": ("allowlist", "whitelist", "allowed_tasks", "policy.tasks"),
    "policy.deny": ("denylist", "blacklist", "denied_tasks"),
    "encryption.keys": ("encryption_keys", "encryption.key", "secret_key"),
    "encryption.current": ("current_key", "encryption.current_key"),
    "redaction.fields": ("mask", "masked_fields", "sensitive_fields", "mask_fields"),
    "breakers.enabled": ("circuit_breaker_enabled", "circuit_breaker.enabled", "breaker.enabled"),
    "rate_limit.mode": ("rate_limiter", "rate_limit_mode", "ratelimit.mode"),
    "events.buffer": ("listener_buffer", "event_buffer", "event_queue_size", "max_events"),
    "alerts.window": ("alert_window", "dlq_alert_window", "alert_interval", "dedup_window"),
    "alerts.keep": ("alert_retention", "dlq_alert_retention"),
    "limits.max_payload": ("max_payload_size", "payload_limit", "max_args_size"),
    "limits.max_result": ("max_result_size", "result_limit"),
}
# What other systems must be told, and why Detent need not be.
_NOT_NEEDED: Final = {
    "cluster.discovery": "nodes find each other in the store that they share",
    "cluster.seeds": "nodes find each other in the store that they share",
    "cluster.peers": "nodes find each other in the store that they share",
    "cluster.members": "nodes find each other in the store that they share",
}
_MEANT: Final = {name: meant for meant, names in _OTHER_NAMES.items() for name in names}
_UNIT: Final = re.compile(r"(_in)?_(ms|millis|milliseconds|s|secs|seconds|minutes)$")


def suggest(section: str, key: str, valid: Keys) -> tuple[str, str] | None:
    """Return the section and key that `key` in `section` was most likely meant to be."""
    section, key = _plain(section), _plain(key)
    return meaning(section, key, valid) or _nearest_key(section, key, valid)


def not_needed(section: str, key: str) -> str | None:
    """Return why there is no such setting, for one that others need."""
    return _NOT_NEEDED.get(f"{_plain(section)}.{_plain(key)}")


def unknown_option(place: str, option: str, known: Sequence[str]) -> ConfigError:
    """Return the error for an option that does not exist, naming the one that was meant."""
    near = difflib.get_close_matches(option, known, n=1)
    way = f"did you mean {near[0]}?" if near else f"the options are {', '.join(known)}"
    return ConfigError(f"{place}: {option!r}: unknown option; {way}")


def meaning(section: str, key: str, valid: Keys) -> tuple[str, str] | None:
    """Return the section and key of a word that is ours in another section, or others use."""
    section, key = _plain(section), _plain(key)
    meant = _MEANT.get(f"{section}.{key}") or _MEANT.get(key)
    if meant:
        return _split(meant)
    homes = [name for name, keys in valid.items() if key in keys]
    if section in homes:
        return section, key
    return (homes[0], key) if homes else None


def nearest(word: str, words: Sequence[str]) -> str | None:
    """Return the word that is spelled most alike, if one is."""
    found = difflib.get_close_matches(_plain(word), words, n=1, cutoff=0.6)
    return found[0] if found else None


def _nearest_key(section: str, key: str, valid: Keys) -> tuple[str, str] | None:
    if own := nearest(key, valid.get(section, ())):
        return section, own
    # Across sections, and among other systems' words, only what is very much alike.
    names = {name: f"{part}.{name}" for part, keys in valid.items() for name in keys}
    names |= {name: meant for name, meant in _MEANT.items() if "." not in name}
    found = difflib.get_close_matches(key, names, n=1, cutoff=0.8)
    return _split(names[found[0]]) if found else None


def _plain(name: str) -> str:
    """Return `pollIntervalMs` and `poll-interval-ms` as `poll_interval`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _UNIT.sub("", snake.replace("-", "_").replace(" ", "_"))


def _split(meant: str) -> tuple[str, str]:
    section, _, key = meant.rpartition(".")
    return section, key
