"""Who is waited for when a job ends that waited itself: those behind it must not go too soon."""

from collections.abc import Mapping
from uuid import UUID


def heir_of(ended: Mapping[UUID, UUID | None], job_id: UUID) -> UUID | None:
    """Return what those wait for from now on who waited for a job that has ended.

    `ended` maps each job that ends at this moment to the one that it was waiting for, if any.
    """
    awaited = ended[job_id]
    while awaited is not None and awaited in ended:
        awaited = ended[awaited]
    return awaited
