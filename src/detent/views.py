"""Jobs as people may see them: encrypted values opened where keys are, some fields hidden."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from detent.errors import SealError
from detent.model.envelope import is_sealed, shown_as
from detent.model.job import Attempt, JobInfo
from detent.model.redaction import Redaction
from detent.spi.sealing import Sealing, Surface

NOTHING_HIDDEN: Final = Redaction(secrets=False)


class Views:
    """Turns what is stored into what is shown."""

    def __init__(
        self, sealing: Sealing | None = None, redaction: Redaction = NOTHING_HIDDEN
    ) -> None:
        self._sealing = sealing
        self._redaction = redaction

    async def job(self, job: JobInfo) -> JobInfo:
        """Return a job as it is shown; what cannot be opened says with which key it was sealed."""
        if not self._concerns(job):
            return job
        return replace(
            job,
            args=await self.shown(Surface.ARGS, job.id, job.codec, job.args) or b"",
            params=await self.shown(Surface.PARAMS, job.id, job.codec, job.params),
            result=await self.shown(Surface.RESULT, job.id, job.codec, job.result),
            error=await self.error(job.id, job.error),
        )

    async def jobs(self, jobs: Sequence[JobInfo]) -> list[JobInfo]:
        """Return jobs as they are shown: side by side, or each would wait for the keys anew."""
        if not any(map(self._concerns, jobs)):
            return list(jobs)
        return await asyncio.gather(*map(self.job, jobs))

    async def attempts(self, job_id: UUID, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Return attempts of a job as they are shown."""
        return await asyncio.gather(*(self._attempt(job_id, each) for each in attempts))

    async def _attempt(self, job_id: UUID, attempt: Attempt) -> Attempt:
        if not is_sealed(attempt.error):
            return attempt
        return replace(attempt, error=await self.error(job_id, attempt.error))

    async def error(self, job_id: UUID, error: bytes | None) -> bytes | None:
        """Return a stored error as JSON in any case; that of a sealed one says that it is."""
        if error is None or not is_sealed(error):
            return error
        try:
            return await self.opened(Surface.ERROR, job_id, error)
        except SealError:
            words = {"type": "Encrypted", "message": shown_as(error), "traceback": ""}
            return json.dumps(words).encode()

    async def opened(self, surface: Surface, job_id: UUID, data: bytes) -> bytes:
        """Return what a value holds, or raise a `SealError`."""
        if not is_sealed(data):
            return data
        if self._sealing is None:
            raise SealError(f"the {surface} of job {job_id}: {shown_as(data)}, and no keys are set")
        return await self._sealing.opened(surface, job_id, data)

    def _concerns(self, job: JobInfo) -> bool:
        payloads = (job.args, job.params, job.result, job.error)
        return self._redaction.masks or any(map(is_sealed, payloads))

    async def shown(
        self, surface: Surface, place: UUID, codec: str, data: bytes | None
    ) -> bytes | None:
        """Return a value as it is shown, or what can be said of one that cannot be opened here."""
        if data is None:
            return None
        try:
            return self._masked(await self.opened(surface, place, data), codec)
        except SealError:
            return json.dumps(shown_as(data)).encode()

    def _masked(self, data: bytes, codec: str) -> bytes:
        if not self._redaction.masks or codec != "json":
            return data
        try:
            value = json.loads(data)
        except ValueError:
            return data
        return json.dumps(self._redaction.mask(value), ensure_ascii=False).encode()
