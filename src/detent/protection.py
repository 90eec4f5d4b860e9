"""What an app does about its jobs being secret, and about who may do what to them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from detent.access import Access
from detent.config import EncryptionConfig, LimitsConfig
from detent.config.protection import RedactionConfig
from detent.errors import ConfigError, PayloadTooLarge, WrongThread
from detent.model.access import Action, Target
from detent.model.job import NewJob
from detent.model.redaction import Redaction
from detent.spi.runtime import Runtime
from detent.spi.sealing import Key, KeyProvider, Sealer, Sealing, Surface
from detent.views import Views


class Protection:
    """Stands before the store: new jobs are allowed and sealed, known ones are opened."""

    def __init__(self, limits: LimitsConfig | None = None, views: Views | None = None) -> None:
        self.limits = limits or LimitsConfig()
        self.views = views or Views()
        self.access: Access | None = None
        self.sealing: Sealing | None = None
        self.everything = False
        """Whether tasks are to be encrypted that say nothing about it."""
        self.active = False
        """Whether new jobs have to pass; where they need not, it costs them nothing."""
        self.call: Callable[..., Any] = _refuse

    async def admit(self, job: NewJob, encrypted: bool | None) -> NewJob:
        """Return a job as it may be stored, or raise `NotAllowed` or `KeyUnavailable`."""
        if self.access is not None:
            await self.access.check_new(job)
        return await self.sealed(job, encrypted)

    async def permit(self, action: Action, target: Target) -> None:
        """Raise `NotAllowed` if the application's rule says so; without one, ask nobody."""
        if self.access is not None:
            await self.access.check(action, target)

    def admit_sync(self, job: NewJob, encrypted: bool | None) -> NewJob:
        """Do the same for blocking code, on its own thread if nobody has to be waited for."""
        if self.access is None:
            sealing = self.sealing_for(encrypted)
            if sealing is None:
                return job
            if (sealer := sealing.ready()) is not None:
                return self._sealed(job, sealer)
        admitted: NewJob = self.call(self.admit(job, encrypted))
        return admitted

    async def sealed(self, job: NewJob, encrypted: bool | None) -> NewJob:
        """Return a job with its values sealed, if those of its task are."""
        sealing = self.sealing_for(encrypted)
        return job if sealing is None else self._sealed(job, await sealing.sealer())

    def sealing_for(self, encrypted: bool | None) -> Sealing | None:
        """Return what seals the values of a task declared like this; None if they stay open."""
        if self.sealing is None:
            if encrypted:
                raise no_keys("@app.task(encrypted=True)")
            if encrypted is None and self.everything:
                raise no_keys("[encryption] enabled = true")
            return None
        return self.sealing if self.sealing.covers(encrypted) else None

    def _sealed(self, job: NewJob, sealer: Sealer) -> NewJob:
        return job._replace(
            args=self.seal(sealer, Surface.ARGS, job.id, job.args),
            params=job.params and self.seal(sealer, Surface.PARAMS, job.id, job.params),
        )

    def seal(self, sealer: Sealer, surface: Surface, place: UUID, data: bytes) -> bytes:
        """Return an envelope for a place, if it is not larger than what may be stored."""
        envelope = sealer.seal(surface, place, data)
        if len(envelope) > self.limits.max_payload:
            are_args = surface in {Surface.ARGS, Surface.SCHEDULE_ARGS}
            what = "the arguments, encrypted," if are_args else "params, encrypted,"
            raise PayloadTooLarge(what, len(envelope), self.limits.max_payload)
        return envelope


def no_keys(what: str) -> ConfigError:
    """Return the error for somebody who wants encryption and has given no keys."""
    variable = "DETENT_ENCRYPTION_KEYS=k1:..."
    return ConfigError(
        f"{what}: there are no keys; set {variable} (32 random bytes in base64), "
        "or call app.encryption(provider=...)"
    )


def check_keys(config: EncryptionConfig, sealing: Sealing | None, encrypted: str | None) -> None:
    """Raise `ConfigError` when something is to be encrypted and nothing can be."""
    if sealing is None and config.enabled:
        raise no_keys("[encryption] enabled = true")
    if sealing is None and encrypted is not None:
        raise no_keys(f"the task {encrypted} is declared with encrypted=True")


def _refuse(_work: Any) -> Any:
    _work.close()
    raise WrongThread("there is no event loop here to ask; use the awaitable form")


def open_sealing(
    config: EncryptionConfig, runtime: Runtime, provider: KeyProvider | None = None
) -> Sealing:
    """Return what seals with the keys of the settings, and of a provider if there is one."""
    try:
        from detent.sealing import AesSealing  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(
            "[encryption]: needs the library cryptography; run: pip install 'detent[encryption]'"
        ) from error
    keys = [Key(key_id, secret) for key_id, secret in config.keys.items()]
    current = config.current or (keys[-1].id if keys else None)
    return AesSealing(
        # The current one first.
        keys=sorted(keys, key=lambda key: key.id != current),
        provider=provider,
        everything=config.enabled,
        keep=config.key_cache,
        patience=config.provider_timeout,
        monotonic=runtime.monotonic,
    )


def read_redaction(config: RedactionConfig) -> Redaction:
    """Return the rules that the settings ask for."""
    return Redaction(
        secrets=config.secrets,
        emails=config.emails,
        patterns=config.patterns,
        fields=config.fields,
    )
