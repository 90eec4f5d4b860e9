"""Signs what a webhook sends, and lets its receiver see that nobody else has sent it."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from detent.errors import ConfigError

SIGNATURE: Final = "X-Detent-Signature"
TIMESTAMP: Final = "X-Detent-Timestamp"
VERSION: Final = "v1"
TOLERANCE: Final = timedelta(minutes=5)

Secret = str | bytes
"""A text, or bytes."""


def sign(body: bytes, timestamp: int, secrets: Sequence[Secret]) -> str:
    """Return the value of the signature header: one signature for each secret."""
    return ",".join(f"{VERSION}={_digest(body, timestamp, secret)}" for secret in secrets)


def verify_signature(
    body: bytes,
    headers: Mapping[str, str],
    secret: Secret | Sequence[Secret],
    *,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> bool:
    """Tell whether a request comes from who knows the secret, and is not an old one sent again.

    `body` is what was received, byte by byte, before anything is read from it; the names of
    `headers` may be written in any case. With several secrets, one that fits is enough.
    """
    secrets = checked_secrets("verify_signature", secret)
    given = {name.lower(): value for name, value in headers.items()}
    stamp, signatures = given.get(TIMESTAMP.lower(), ""), given.get(SIGNATURE.lower(), "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12) or not signatures:
        return False
    moment = (now or datetime.now(UTC)).timestamp()
    if abs(moment - int(stamp)) > tolerance.total_seconds():
        return False
    sent = [each.strip().encode() for each in signatures.split(",")]
    wanted = [f"{VERSION}={_digest(body, int(stamp), each)}" for each in secrets]
    # All of them, whichever fits, so that the time taken tells nothing.
    found = [hmac.compare_digest(mine.encode(), theirs) for mine in wanted for theirs in sent]
    return any(found)


def checked_secrets(who: str, secret: Secret | Sequence[Secret]) -> Sequence[Secret]:
    """Return one secret, or several, as several; one that is empty anybody could sign with."""
    one = isinstance(secret, str | bytes)
    secrets: Sequence[Any] = (secret,) if one else secret if isinstance(secret, Sequence) else ()
    if not secrets or not all(isinstance(each, str | bytes) and each for each in secrets):
        raise ConfigError(f"{who}: secret = ...: must be a text or bytes, not empty")
    return tuple(secrets)


def _digest(body: bytes, timestamp: int, secret: Secret) -> str:
    key = secret.encode() if isinstance(secret, str) else secret
    return hmac.new(key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
