"""If these fail, passwords stand in errors for all to read, or a long error stops a node."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import ConfigError
from detent.config import RedactionConfig
from detent.model.redaction import MASK, Redaction

RULES = Redaction(emails=True)
MEGABYTE = 1 << 20
PATIENCE = 10.0

PEM = "-----BEGIN {0}PRIVATE KEY-----\\nMIIs3cret\ns3cret==\n-----END {0}PRIVATE KEY-----"

SECRETS = [
    ("postgresql://ada:s3cret@host/db", "postgresql://ada:***@host/db"),
    ("cannot reach redis://:s3cret@host:6379/0!", "cannot reach redis://:***@host:6379/0!"),
    ("ftp://joe:pa@s3cret@host/", "ftp://joe:***@host/"),
    ("amqp://u:s3/cret@host/vhost", "amqp://u:***@host/vhost"),
    ("a://u:s3cret@h,b://v:s3cret@w", "a://u:***@h,b://v:***@w"),
    ("password=s3cret", "password=***"),
    ("DB_PASSWORD = s3cret; user=ada", "DB_PASSWORD = ***; user=ada"),
    ("?token=s3cret&page=2", "?token=***&page=2"),
    ("api-key: s3cret, next", "api-key: ***, next"),
    ('{"password": "s3\\"cret", "user": "ada"}', '{"password": ***, "user": "ada"}'),
    ("{'client_secret': 's3cret'}", "{'client_secret': ***}"),
    ('password="s3cret that was cut o', "password=***"),
    ("Authorization: Basic czNjcmV0", "Authorization: ***"),
    ("Authorization: Bearer s3cret.s3cret", "Authorization: ***"),
    ("sent bearer s3cret-s3cret", "sent bearer ***"),
    ("connect(password=s3cret)", "connect(password=***)"),
    ("connect(password=b's3cret', timeout=5)", "connect(password=***, timeout=5)"),
    ('token: rb"s3cret that was cut o', "token: ***"),
    ("('password', 's3cret')", "('password', ***)"),
    (
        "dict_items([('user', 'ada'), ('db_password', 's3\\'cret')])",
        "dict_items([('user', 'ada'), ('db_password', ***)])",
    ),
    ('{("X-Api-Key", b"s3cret"), ("page", "2")}', '{("X-Api-Key", ***), ("page", "2")}'),
    ("[(b'authorization', b'Basic s3cret')]", "[(b'authorization', ***)]"),
    ('[["user", "ada"], ["token","s3cret"]]', '[["user", "ada"], ["token",***]]'),
    ("(('user', 'ada'),\n ('password',\n  's3cret'))", "(('user', 'ada'),\n ('password',\n  ***))"),
    ("setattr('password', \"s3cret\")", "setattr('password', ***)"),
    (f"{PEM.format('RSA ')} of ada", "*** of ada"),
    (f"private_key={PEM.format('')}", "private_key=***"),
    (f"{PEM.format('EC ')}, {PEM.format('OPENSSH ')}", "***, ***"),
    ("write to ada.s3cret@example.com now", "write to *** now"),
]
HARMLESS = [
    "http://host:8080/a@b",
    "http://host/a:b@c",
    "42 tokens: too many",
    "the token is bad",
    "no password given",
    "bearer of bad news",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "password is b",
    "missing: ['password', 'email']",
    "missing: ('user', 'password', 'email')",
    "missing: ('password', 'email', 'name')",
    "KeyError: ('password',)",
    "[('token', 5), ('comma', 9)]",
    "('tokens', 'too many')",
    "ValueError: invalid literal for int() with base 10: 'forty-two'",
    "",
]
SLOW = ["://", "://a:", "://a:b/", "://x:1", "://a:b@", "a", "a.", "a@", "a@b.", ".a@-", "-", "@"]
SLOW += ["password", "password ", 'password="', 'password="\\', "secret='", "password=\t", "token:"]
SLOW += ["-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A-----END ", "password=b"]
SLOW += [
    "('",
    "('token', '",
    """("token", '""",
    "('a",
    "('token',",
    "[['token', '\\",
    "('token', 'a'",
]
SLOW += ["bearer ", "bearer a", "\\", '\\\\"', '"', " "]


@pytest.mark.parametrize("text, expected", SECRETS)
def test_a_secret_is_taken_out_and_the_rest_stays(text: str, expected: str) -> None:
    assert RULES.clean(text) == expected
    assert "s3cret" not in RULES.clean(f"before\n{text}\nafter")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert RULES.clean(text) == text


@pytest.mark.parametrize("unit", SLOW)
def test_a_text_made_to_be_slow_is_not(unit: str) -> None:
    assert seconds_for(unit * (MEGABYTE // 8 // len(unit)) + "@") < PATIENCE


@pytest.mark.parametrize("unit", ["://a:b/", "a.", 'password="\\'])
def test_nor_is_a_megabyte_of_it(unit: str) -> None:
    assert seconds_for(unit * (MEGABYTE // len(unit) + 1)) < PATIENCE


def seconds_for(text: str) -> float:
    """Of the processor; with quadratic rules it would be minutes."""
    begun = time.process_time()
    RULES.clean(text)
    return time.process_time() - begun


TEXTS = st.text(alphabet="abz:/@ \"'=&.\\\n(,)[]", max_size=9)
WORDS = st.sampled_from(["password", "token", "bearer ", "('token', '", '["token", "', "')", "://"])


@given(st.lists(TEXTS | WORDS, max_size=20).map("".join))
def test_cleaning_again_changes_nothing(text: str) -> None:
    once = RULES.clean(text)
    assert RULES.clean(once) == once


def test_each_kind_can_be_switched() -> None:
    text = "ada@example.com has password=s3cret and card 4111 1111"
    assert Redaction().clean(text) == "ada@example.com has password=*** and card 4111 1111"
    assert Redaction(secrets=False).clean(text) == text
    assert not Redaction(secrets=False).cleans
    only = Redaction(secrets=False, patterns=[r"\d{4} \d{4}"])
    assert only.clean(text) == "ada@example.com has password=s3cret and card ***"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["card", "Card", "name", "pin"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_masked_fields_show_nothing_however_deep(value: object) -> None:
    def check(masked: object, original: object) -> None:
        if isinstance(original, dict):
            assert isinstance(masked, dict)
            assert masked.keys() == original.keys()
            for key, entry in original.items():
                if key in ("card", "Card", "pin"):
                    assert masked[key] == MASK
                else:
                    check(masked[key], entry)
        elif isinstance(original, list):
            assert isinstance(masked, list)
            for one, other in zip(masked, original, strict=True):
                check(one, other)
        else:
            assert masked == original

    before = json.dumps(value)
    check(Redaction(fields=["CARD", "pin"]).mask(value), value)
    assert json.dumps(value) == before, "what is stored stays as it is"


@pytest.mark.parametrize("pattern", ["", r"\d*", "x|"])
def test_a_pattern_that_fits_nothing_at_all_is_refused(pattern: str) -> None:
    """It would put a mask between all characters of every error."""
    with pytest.raises(ConfigError, match=r"\[redaction\] patterns = .* fits nothing at all"):
        RedactionConfig(patterns=(pattern,))


def test_a_pair_that_was_cut_off_is_taken_out_to_the_end() -> None:
    assert (
        RULES.clean("[('user', 'ada'), ('password', 's3cr") == "[('user', 'ada'), ('password', ***"
    )


def test_a_private_key_that_was_cut_off_is_taken_out_to_the_end() -> None:
    assert RULES.clean("key: -----BEGIN RSA PRIVATE KEY-----\nMIIs3cr") == "key: ***"
