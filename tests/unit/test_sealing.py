"""If these fail, what was encrypted can be read, altered, moved, or is lost to its owner."""

import asyncio
import base64
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.config import EncryptionConfig
from detent.errors import (
    ConfigError,
    KeyMissing,
    KeyUnavailable,
    SealBroken,
    SealError,
    SealTooNew,
)
from detent.model.envelope import MARKER, is_sealed, read_envelope, shown_as
from detent.sealing import AesSealer, AesSealing
from detent.spi.sealing import Key, KeyProvider, Surface

JOB, OTHER = UUID(int=7), UUID(int=8)
OLD, NEW = Key("k1", b"1" * 32), Key("k2", b"2" * 32)
MINUTE = timedelta(minutes=1)


def sealing(*keys: Key, provider: KeyProvider | None = None, everything: bool = True) -> AesSealing:
    return AesSealing(
        keys=keys,
        provider=provider,
        everything=everything,
        keep=MINUTE,
        patience=timedelta(seconds=0.05),
        monotonic=lambda: CLOCK.now,
    )


class Clock:
    now = 0.0


CLOCK = Clock()


class Vault:
    """A provider of keys that can be broken and that counts how often it was asked."""

    def __init__(self, *keys: Key) -> None:
        self.keys = {key.id: key for key in keys}
        self.latest: Any = keys[-1]
        self.asked = list[str]()
        self.trouble: BaseException | None = None
        self.silent = False

    async def current(self) -> Key:
        await self._answer("current")
        answer: Key = self.latest
        return answer

    async def find(self, key_id: str) -> Key | None:
        await self._answer(key_id)
        return self.keys.get(key_id)

    async def _answer(self, asked: str) -> None:
        self.asked.append(asked)
        await asyncio.sleep(3600 if self.silent else 0)
        if self.trouble is not None:
            raise self.trouble


@given(st.binary(max_size=300), st.sampled_from(list(Surface)), st.uuids())
def test_what_was_sealed_comes_back(data: bytes, surface: Surface, job_id: UUID) -> None:
    envelope = AesSealer(NEW).seal(surface, job_id, data)
    assert is_sealed(envelope)
    assert len(data) < 8 or data not in envelope
    assert envelope != AesSealer(NEW).seal(surface, job_id, data), "never the same twice"
    opened = asyncio.run(sealing(OLD, NEW).opened(surface, job_id, envelope))
    assert opened == data


@given(st.data())
def test_no_bit_of_it_can_be_altered(data: st.DataObject) -> None:
    envelope = AesSealer(OLD).seal(Surface.ARGS, JOB, b'{"card": "4111"}')
    place = data.draw(st.integers(len(MARKER), len(envelope) - 1))
    bit = data.draw(st.integers(0, 7))
    altered = bytearray(envelope)
    altered[place] ^= 1 << bit
    with pytest.raises(SealError):
        asyncio.run(sealing(OLD).opened(Surface.ARGS, JOB, bytes(altered)))


@given(st.binary(max_size=80))
def test_rubbish_behind_the_marker_is_refused_and_shown_as_such(rubbish: bytes) -> None:
    data = MARKER + rubbish
    with pytest.raises(SealError):
        asyncio.run(sealing(OLD).opened(Surface.ARGS, JOB, data))
    assert shown_as(data).startswith("<encrypted")


@given(st.integers(0, 60))
def test_a_piece_of_it_is_refused(length: int) -> None:
    envelope = AesSealer(OLD).seal(Surface.ARGS, JOB, b"{}")
    if length < len(envelope):
        with pytest.raises(SealError):
            asyncio.run(sealing(OLD).opened(Surface.ARGS, JOB, envelope[:length]))


async def test_it_opens_in_its_own_place_only() -> None:
    envelope = AesSealer(OLD).seal(Surface.ARGS, JOB, b"{}")
    opener = sealing(OLD)
    assert await opener.opened(Surface.ARGS, JOB, envelope) == b"{}"
    for surface, job_id in ((Surface.RESULT, JOB), (Surface.ARGS, OTHER)):
        with pytest.raises(SealBroken, match="were altered, or made for another place"):
            await opener.opened(surface, job_id, envelope)
    with pytest.raises(SealBroken, match="is not the one that sealed them"):
        await sealing(Key("k1", NEW.secret)).opened(Surface.ARGS, JOB, envelope)


async def test_a_key_is_added_and_the_old_one_still_opens() -> None:
    before = (await sealing(OLD).sealer()).seal(Surface.RESULT, JOB, b"1")
    both = sealing(NEW, OLD)
    after = (await both.sealer()).seal(Surface.RESULT, JOB, b"2")
    assert [read_envelope(each).key_id for each in (before, after)] == ["k1", "k2"]
    assert await both.opened(Surface.RESULT, JOB, before) == b"1"
    assert await both.opened(Surface.RESULT, JOB, after) == b"2"
    with pytest.raises(KeyMissing, match="'k2', which is not known here"):
        await sealing(OLD).opened(Surface.RESULT, JOB, after)


@pytest.mark.parametrize("place", [len(MARKER), len(MARKER) + 1], ids=["version", "algorithm"])
async def test_a_newer_envelope_is_told_from_a_broken_one(place: int) -> None:
    envelope = bytearray(AesSealer(OLD).seal(Surface.ARGS, JOB, b"{}"))
    envelope[place] = 2
    with pytest.raises(SealTooNew, match="this code knows 1 with 1"):
        await sealing(OLD).opened(Surface.ARGS, JOB, bytes(envelope))
    assert "newer code" in shown_as(bytes(envelope))


def test_no_json_and_no_empty_value_is_taken_for_an_envelope() -> None:
    for data in (None, b"", b"{}", b'"\\u0000det"', b"null", b"\0"):
        assert not is_sealed(data)
    with pytest.raises(ValueError, match="no envelope"):
        read_envelope(b"{}")


async def test_a_provider_is_asked_once_for_many_and_again_when_time_has_passed() -> None:
    vault = Vault(OLD, NEW)
    held = sealing(provider=vault)
    assert held.ready() is None
    sealers = await asyncio.gather(*[held.sealer() for _ in range(50)])
    assert vault.asked == ["current"]
    assert held.ready() is sealers[0]
    envelope = AesSealer(OLD).seal(Surface.ARGS, JOB, b"{}")
    await asyncio.gather(*[held.opened(Surface.ARGS, JOB, envelope) for _ in range(50)])
    assert vault.asked == ["current", "k1"]
    CLOCK.now += 61
    assert held.ready() is None
    await held.sealer()
    assert vault.asked == ["current", "k1", "current"]


@pytest.mark.parametrize(
    "trouble, words",
    [
        (ConnectionError("secret words"), "does not answer: ConnectionError"),
        (asyncio.CancelledError("secret words"), "does not answer: CancelledError"),
        (None, "has not answered after 0.05 s"),
    ],
)
async def test_a_provider_that_is_away_is_told_and_asked_again(
    trouble: BaseException | None, words: str
) -> None:
    vault = Vault(OLD)
    vault.trouble, vault.silent = trouble, trouble is None
    held = sealing(provider=vault)
    for _ in range(2):
        with pytest.raises(KeyUnavailable, match=words) as told:
            await held.sealer()
        assert "secret words" not in str(told.value)
    vault.trouble, vault.silent = None, False
    await held.sealer()


@pytest.mark.parametrize(
    "wrong, words",
    [
        ("k1", "returned a str, not a Key"),
        (Key("k1", b"short"), "has not 32 bytes"),
        (Key("", b"1" * 32), "1 to 64 bytes"),
        (Key("k" * 65, b"1" * 32), "1 to 64 bytes"),
    ],
)
async def test_a_provider_that_returns_no_key_counts_as_away(wrong: object, words: str) -> None:
    vault = Vault(OLD)
    vault.latest = wrong
    with pytest.raises(KeyUnavailable, match=words):
        await sealing(provider=vault).sealer()


async def test_a_provider_that_returns_another_key_makes_no_value_look_altered() -> None:
    vault = Vault(OLD)
    vault.keys["k1"] = NEW
    envelope = AesSealer(OLD).seal(Surface.ARGS, JOB, b"{}")
    with pytest.raises(KeyUnavailable, match="returned 'k2' for 'k1'"):
        await sealing(provider=vault).opened(Surface.ARGS, JOB, envelope)


async def test_keys_of_the_settings_still_open_beside_a_provider() -> None:
    held = sealing(OLD, provider=Vault(NEW))
    envelope = AesSealer(OLD).seal(Surface.ARGS, JOB, b"{}")
    assert await held.opened(Surface.ARGS, JOB, envelope) == b"{}"
    fresh = (await held.sealer()).seal(Surface.ARGS, JOB, b"{}")
    assert read_envelope(fresh).key_id == "k2"


def test_what_is_covered() -> None:
    assert [sealing(OLD).covers(said) for said in (None, True, False)] == [True, True, False]
    some = sealing(OLD, everything=False)
    assert [some.covers(said) for said in (None, True, False)] == [False, True, False]


def test_a_key_does_not_print_its_secret() -> None:
    assert repr(OLD) == "Key(id='k1', secret=***)"
    config = EncryptionConfig(keys={"k1": b"1" * 32})
    assert "111" not in repr(config)


SECRET = base64.b64encode(b"s" * 32).decode()


def test_keys_are_read_in_both_alphabets_with_or_without_their_end() -> None:
    key = bytes(range(220, 252))
    texts = [base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode().rstrip("=")]
    for text in texts:
        assert EncryptionConfig(keys=f" k1:{text} ,").keys == {"k1": key}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "keys, words",
    [
        (SECRET, "key 1 has no id"),
        (f"k1:{SECRET[:-4]}", "key 1 has"),
        (f"k1:{SECRET},k1:{SECRET}", "the id of key 2 is given twice"),
        (f"k 1:{SECRET}", "key 1 has no id"),
        (f"{SECRET[:-1]}:k1", "key 1"),
        ("k1:%%%%", "key 1 is not base64"),
        (5, "must be such as"),
    ],
)
def test_wrong_keys_are_refused_without_telling_them(keys: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        EncryptionConfig(keys=keys)
    assert SECRET[:10] not in str(told.value)
    assert str(told.value).startswith("[encryption] keys = '***'")


def test_the_current_key_must_be_one_of_them() -> None:
    with pytest.raises(ConfigError, match="current = 'k9': no key has this id; they are k1"):
        EncryptionConfig(keys={"k1": b"1" * 32}, current="k9")
