"""What must not be shown, taken out of texts and values before anybody keeps or reads them.

Every rule reads a text once: a search begins only at a fixed word or at the edge of a run, and
what one search has read no other reads again. So a text that was made to be slow is not.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

MASK: Final = "***"

_NAMES: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|authorization|credentials?"
    r"|api[_-]?key|access[_-]?key|private[_-]?key|secret[_-]?key|session[_-]?id"
)
# The quotes at the end may have been cut off.
_QUOTED: Final = r"(?:[bru]{1,2}+(?=[\"']))?(?:\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?)"
# A name, perhaps in quotes, an equals sign or a colon, and a value, perhaps in quotes, perhaps
# behind the word that says which kind it is. Names may end longer words.
_PAIR: Final = re.compile(
    rf"(?P<name>(?:{_NAMES})[\"']?[ \t]*+[=:][ \t]*+)"
    rf"(?:{_QUOTED}|(?:(?:bearer|basic|digest|token)[ \t]++)?[^\s,;&\"'<>(){{}}\[\]]++)",
    re.IGNORECASE,
)
# The same as a tuple of two, both in quotes, or as a list of two within a list: a list of two that
# stands alone is more often one of names.
_TUPLE: Final = re.compile(
    r"(?P<name>(?:\(|(?<=[\[,])\[|(?<=[\[,]\s)\[)[bru]{0,2}+(?P<quote>[\"'])"
    rf"[\w.-]{{0,40}}?(?:{_NAMES})(?P=quote),\s*+){_QUOTED}(?=\s*+(?:[)\]]|\Z))",
    re.IGNORECASE,
)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY( BLOCK)?-----")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY( BLOCK)?-----")
_BEARER: Final = re.compile(r"\b(bearer[ \t]++)[A-Za-z0-9._~+/=-]{6,}+", re.IGNORECASE)
# Not within a run of such characters: there, each of them would be a place to begin.
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++")
# Where a URL ends, and where the part of it ends in which a name and a password can stand.
_URL_END: Final = re.compile(r"[\s\"'<>]")
_AUTHORITY_END: Final = re.compile(r"[/?#]")
_PORT: Final = re.compile(r"\d{0,5}")

Rule = Callable[[str], str]


class Redaction:
    """The rules for texts, and the names of fields whose values nobody is to see.

    `patterns` are regular expressions whose matches go; how long they take is their author's
    concern.
    """

    def __init__(
        self,
        *,
        secrets: bool = True,
        emails: bool = False,
        patterns: Sequence[str] = (),
        fields: Sequence[str] = (),
    ) -> None:
        self._rules: list[Rule] = []
        if secrets:
            self._rules += [without_keys, without_credentials, without_pairs, without_bearers]
        if emails:
            self._rules.append(lambda text: _EMAIL.sub(MASK, text))
        self._rules += [_rule(pattern) for pattern in patterns]
        self._fields = frozenset(field.casefold() for field in fields)

    @property
    def cleans(self) -> bool:
        """Whether there is any rule for texts."""
        return bool(self._rules)

    @property
    def masks(self) -> bool:
        """Whether there is any field to hide."""
        return bool(self._fields)

    def clean(self, text: str) -> str:
        """Return a text without what the rules find in it."""
        for rule in self._rules:
            text = rule(text)
        return text

    def mask(self, value: Any) -> Any:
        """Return a plain value in which no field of a hidden name shows what it holds."""
        match value:
            case dict():
                return {
                    key: MASK if str(key).casefold() in self._fields else self.mask(entry)
                    for key, entry in value.items()
                }
            case list():
                return [self.mask(entry) for entry in value]
        return value


def without_pairs(text: str) -> str:
    """Return a text without the values of `password=...`, `("token", "...")` and their like."""
    text = _TUPLE.sub(rf"\g<name>{MASK}", text)
    return _PAIR.sub(rf"\g<name>{MASK}", text)


def without_keys(text: str) -> str:
    """Return a text without private keys; one whose end was cut off reaches to the end of it."""
    parts: list[str] = []
    kept = 0
    while (found := _PRIVATE_KEY.search(text, kept)) is not None:
        end = _KEY_END.search(text, found.end())
        parts += [text[kept : found.start()], MASK]
        kept = len(text) if end is None else end.end()
    return "".join([*parts, text[kept:]])


def without_bearers(text: str) -> str:
    """Return a text without the tokens that follow the word bearer."""
    return _BEARER.sub(rf"\g<1>{MASK}", text)


def without_credentials(text: str) -> str:
    """Return a text in which URLs show no password: `postgresql://ada:***@host/database`."""
    parts: list[str] = []
    kept = 0
    while (start := text.find("://", kept)) >= 0:
        start += 3
        parts.append(text[kept:start])
        kept = start
        span = _password(text, start)
        if span is not None:
            parts.append(f"{text[start : span[0]]}{MASK}")
            kept = span[1]
    parts.append(text[kept:])
    return "".join(parts)


def _password(text: str, start: int) -> tuple[int, int] | None:
    """Return where the password of a URL begins and ends that goes on at `start`."""
    # Not beyond the next URL, which is looked at by itself: so nothing is read twice.
    following = text.find("://", start)
    limit = _end(_URL_END, text, start, len(text) if following < 0 else following)
    edge = _end(_AUTHORITY_END, text, start, limit)
    colon = text.find(":", start, edge)
    if colon < 0:
        return None
    at = text.rfind("@", colon, edge)
    if at < 0 and not _PORT.fullmatch(text, colon + 1, edge):
        # No port is written like this: it is a password that has a slash in it.
        at = text.find("@", edge, limit)
    return None if at < 0 else (colon + 1, at)


def _end(pattern: re.Pattern[str], text: str, start: int, limit: int) -> int:
    """Return where the pattern is first found, no further than the limit."""
    found = pattern.search(text, start, limit)
    return limit if found is None else found.start()


def _rule(pattern: str) -> Rule:
    compiled = re.compile(pattern)
    return lambda text: compiled.sub(MASK, text)
