"""If these fail, one kind of failure is told a thousand times, or two kinds as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.fingerprint import MESSAGE_LIMIT, fingerprint, normalised, own_frame

TRACE = """\
Traceback (most recent call last):
  File "/app/.venv/lib/python3.11/site-packages/detent/_engine/execute.py", line 120, in _run
    value = await task.function(*positional, **keywords)
  File "/app/shop/mail.py", line 42, in send
    deliver(message)
  File "/app/shop/smtp.py", line 7, in deliver
    connection.sendmail(message)
  File "/usr/lib/python3.11/smtplib.py", line 908, in sendmail
    raise SMTPRecipientsRefused(senderrs)
smtplib.SMTPRecipientsRefused: {}
"""


@pytest.mark.parametrize(
    "message, words",
    [
        ("order 4711 of user 12 failed", "order <n> of user <n> failed"),
        ("no row 2f4e6b1a-5f3c-4d2e-9a7b-0c1d2e3f4a5b", "no row <id>"),
        ("no row 2f4e6b1a5f3c4d2e9a7b0c1d2e3f4a5b", "no row <id>"),
        ("no row 10000000000000000000000000000000", "no row <n>"),
        ("no row 10000000-0000-4000-8000-000000000000", "no row <id>"),
        ("no user 01ARZ3NDEKTSV4RRFFQ69G5FAV", "no user <id>"),
        ("No such customer: cus_NffrFeUfNV2Hib", "No such customer: <id>"),
        ("no table load_customer_orders_v1", "no table load_customer_orders_v<n>"),
        ("sha256_mismatch_error in a2b", "sha<n>_mismatch_error in a<n>b"),
        ("no mailbox for ada.l+x@mail.example.com.", "no mailbox for <address>."),
        ("a @ b, user@, @app", "a @ b, user@, @app"),
        ("<Order at 0x7f3ab2>", "<Order at <hex>>"),
        ("commit deadbeef01 is gone", "commit <hex> is gone"),
        ("decade of facade", "decade of facade"),
        ("KeyError: 'ada@example.com'", "KeyError: <text>"),
        ('no "file" and no `thing`', "no <text> and no <text>"),
        ("can't reach host, won't try", "can't reach host, won't try"),
        ("took 1.25 s at 12:30:05, -3 left", "took <n> s at <n>, <n> left"),
        ("two\n   lines\t here", "two lines here"),
        ("", ""),
    ],
)
def test_what_differs_from_job_to_job_is_taken_out(message: str, words: str) -> None:
    assert normalised(message) == words


@given(st.integers(), st.integers(), st.uuids(), st.uuids())
def test_numbers_and_ids_make_no_difference(
    one: int, two: int, left: object, right: object
) -> None:
    first = fingerprint("ValueError", f"user {one} has no order {left}", TRACE)
    assert first == fingerprint("ValueError", f"user {two} has no order {right}", TRACE)


@given(st.text(), st.text(), st.text())
def test_anything_has_a_fingerprint(kind: str, message: str, trace: str) -> None:
    found = fingerprint(kind, message, trace)
    assert found == fingerprint(kind, message, trace)
    assert len(found.digest) == 16
    assert len(found.message) <= MESSAGE_LIMIT


def test_it_is_where_the_tasks_own_code_was() -> None:
    assert own_frame(TRACE) == "shop/smtp.py:deliver"
    moved = TRACE.replace("line 7", "line 70").replace("/app/", "/srv/releases/42/")
    assert fingerprint("E", "m", moved) == fingerprint("E", "m", TRACE)
    assert own_frame(TRACE.replace("in deliver", "in deliver_twice")) == (
        "shop/smtp.py:deliver_twice"
    )


def test_without_code_of_ones_own_it_is_the_last_place() -> None:
    lines = TRACE.splitlines()
    foreign = "\n".join([*lines[:3], *lines[7:]])
    assert own_frame(foreign) == "python3.11/smtplib.py:sendmail"
    assert own_frame("") == ""
    assert own_frame("nonsense") == ""


def test_of_a_chain_it_is_the_error_that_was_raised_in_the_end() -> None:
    chained = TRACE + "\nDuring handling of the above exception, another exception occurred:\n\n"
    chained += TRACE.replace("in deliver", "in give_up")
    assert own_frame(chained) == "shop/smtp.py:give_up"


def test_kinds_words_and_places_make_a_difference() -> None:
    one = fingerprint("ValueError", "no route", TRACE).digest
    others = [
        fingerprint("OSError", "no route", TRACE).digest,
        fingerprint("ValueError", "no host", TRACE).digest,
        fingerprint("ValueError", "no route", "").digest,
    ]
    assert len({one, *others}) == 4
