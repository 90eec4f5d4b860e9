"""What callers may attach to a job besides its arguments, checked wherever they do."""

from collections.abc import Sequence
from typing import Any

from detent.config import LimitsConfig
from detent.errors import InvalidJob, PayloadTooLarge
from detent.spi.codec import Codec


def checked_tags(tags: Sequence[str], limits: LimitsConfig) -> list[str] | None:
    """Return tags, each once, or None for none of them."""
    if not tags:
        return None
    if len(tags) > limits.max_tags:
        raise InvalidJob(f"{len(tags)} tags, more than the limit of {limits.max_tags}", path="tags")
    for tag in tags:
        check_text("tags", tag, limits.max_key)
    return list(dict.fromkeys(tags))


def encoded_params(
    params: dict[str, Any] | None, codec: Codec, limits: LimitsConfig
) -> bytes | None:
    """Return params as they are stored, or None for none."""
    if not params:
        return None
    data = codec.encode(params)
    if len(data) > limits.max_payload:
        raise PayloadTooLarge("params", len(data), limits.max_payload)
    return data


def check_text(field: str, text: str, limit: int) -> None:
    """Raise `InvalidJob` unless a text can be stored, searched for and printed."""
    if not isinstance(text, str) or not text:
        raise InvalidJob(f"{field} = {text!r}: must be a text that is not empty", path=field)
    if len(text) > limit:
        raise InvalidJob(
            f"{field} = {text[:40]!r}...: {len(text)} characters, the limit is {limit}",
            path=field,
        )
    if "\0" in text or not text.isprintable():
        raise InvalidJob(f"{field} = {text!r}: has unprintable characters", path=field)
