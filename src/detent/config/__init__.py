"""Every setting, checked once and frozen: nothing else reads the environment or a file.

A setting comes from an argument, else from the environment (`DETENT_URL`,
`DETENT_<SECTION>_<KEY>`), else from `detent.toml`, else from its default. A mistake is a
`ConfigError` that names the setting, its value, where it stood and what would be valid.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from detent.config.guards import BreakersConfig, RateLimitConfig
from detent.config.pools import PoolConfig, check_pools, read_pools
from detent.config.protection import EncryptionConfig, PolicyConfig, RedactionConfig
from detent.config.queues import QueueConfig, check_queues, read_queue_sections
from detent.config.readers import check_name
from detent.config.schedules import SchedulesConfig
from detent.config.sections import (
    ClusterConfig,
    LimitsConfig,
    NodeConfig,
    PollingConfig,
    RetentionConfig,
    Section,
    StoreConfig,
    WakeupConfig,
    redact,
)
from detent.config.sizes import format_size, parse_size
from detent.config.sources import NAMED, POOLS, QUEUES, Raw, any_of, from_environment, from_file
from detent.config.telling import AlertsConfig, EventsConfig
from detent.errors import ConfigError
from detent.model.durations import format_duration, parse_duration

__all__ = [
    "AlertsConfig",
    "BreakersConfig",
    "ClusterConfig",
    "Config",
    "EncryptionConfig",
    "EventsConfig",
    "LimitsConfig",
    "NodeConfig",
    "PolicyConfig",
    "PollingConfig",
    "PoolConfig",
    "QueueConfig",
    "RateLimitConfig",
    "RedactionConfig",
    "RetentionConfig",
    "SchedulesConfig",
    "StoreConfig",
    "WakeupConfig",
    "check_name",
    "format_duration",
    "format_size",
    "parse_duration",
    "parse_size",
    "redact",
]

SECTIONS: Final[dict[str, type[Section]]] = {
    kind.section: kind
    for kind in (
        StoreConfig,
        NodeConfig,
        PollingConfig,
        WakeupConfig,
        ClusterConfig,
        RetentionConfig,
        SchedulesConfig,
        LimitsConfig,
        BreakersConfig,
        RateLimitConfig,
        EventsConfig,
        AlertsConfig,
        PolicyConfig,
        EncryptionConfig,
        RedactionConfig,
    )
}
PRESETS: Final = {"default": PollingConfig, "classic": PollingConfig.classic}


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one app."""

    store: StoreConfig = field(default_factory=StoreConfig)
    node: NodeConfig = field(default_factory=NodeConfig)
    polling: PollingConfig = field(default_factory=PollingConfig)
    wakeup: WakeupConfig = field(default_factory=WakeupConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    schedules: SchedulesConfig = field(default_factory=SchedulesConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    breakers: BreakersConfig = field(default_factory=BreakersConfig)
    rate_limit: RateLimitConfig = field(default_factory=RateLimitConfig)
    events: EventsConfig = field(default_factory=EventsConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    encryption: EncryptionConfig = field(default_factory=EncryptionConfig)
    redaction: RedactionConfig = field(default_factory=RedactionConfig)
    pools: Mapping[str, PoolConfig] = field(default_factory=dict, hash=False)
    queues: Mapping[str, QueueConfig] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_pools(self.pools)
        check_queues(self.queues)
        for entry in fields(self):
            if entry.name in NAMED:
                continue
            value, kind = getattr(self, entry.name), SECTIONS[entry.name]
            if not isinstance(value, kind):
                raise ConfigError(f"{entry.name} = {value!r}: must be a {kind.__name__}")

    @classmethod
    def load(
        cls,
        url: str | None = None,
        *,
        path: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Read the settings: argument, then environment, then file, then defaults."""
        environ = os.environ if environ is None else environ
        valid = {name: kind.names() for name, kind in SECTIONS.items()}
        valid["polling"].append("preset")
        valid[any_of(POOLS)] = PoolConfig.names()
        valid[any_of(QUEUES)] = QueueConfig.names()
        found = [*from_file(path, environ, valid), *from_environment(environ, valid)]
        if url is not None:
            found.append(Raw("store", "url", url, "the argument"))
        return cls(**_sections(found))


def _sections(found: list[Raw]) -> dict[str, Any]:
    """Make the sections; what comes later in the list counts more."""
    values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    preset = PollingConfig()
    named: dict[str, list[Raw]] = {kind: [] for kind in NAMED}
    for raw in found:
        kind, dot, _ = raw.section.partition(".")
        if dot:
            named[kind].append(raw)
            continue
        if (raw.section, raw.key) == ("polling", "preset"):
            preset = _preset(raw)
        else:
            value = SECTIONS[raw.section].read(raw.key, raw.value, raw.source)
            values[raw.section][raw.key] = value
    basis = {key: getattr(preset, key) for key in preset.names()}
    values["polling"] = basis | values["polling"]
    sections = {name: kind(**values[name]) for name, kind in SECTIONS.items()}
    return {
        **sections,
        POOLS: read_pools(named[POOLS]),
        QUEUES: read_queue_sections(named[QUEUES]),
    }


def _preset(raw: Raw) -> PollingConfig:
    if raw.value not in PRESETS:
        raise ConfigError(
            f"[polling] preset = {raw.value!r}: must be one of {', '.join(PRESETS)} "
            f"(from {raw.source})"
        )
    return PRESETS[raw.value]()
