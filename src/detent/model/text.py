"""Texts that every store accepts."""


def storable(text: str, limit: int) -> str:
    """Return a text without NUL and lone surrogates, cut to a limit."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
