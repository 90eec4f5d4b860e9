"""The roots of the tree in `detent.errors`, where values of the model can raise them."""


class DetentError(Exception):
    """The root of all errors that Detent raises on purpose."""


class ConfigError(DetentError):
    """A setting that cannot be right; the message names it, its value and what would be valid."""
