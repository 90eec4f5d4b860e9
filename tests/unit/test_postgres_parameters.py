"""If these fail, a URL that a hoster hands out makes every connection fail, or hides a mistake."""

import pytest

from detent.errors import ConfigError
from detent.stores.postgres.database import Address
from detent.stores.postgres.parameters import prepared

URL = "postgresql://ada:pa%26ss@a:1,b:2/jobs"


def test_a_url_without_parameters_stays_as_it_is() -> None:
    assert prepared(URL) == (URL, None, None)
    assert prepared("postgresql:///jobs?host=/tmp").url == "postgresql:///jobs?host=/tmp"
    assert (
        prepared("postgresql:///jobs?keepalives=1&host=/tmp").url == "postgresql:///jobs?host=/tmp"
    )


@pytest.mark.parametrize(
    "parameter",
    [
        "keepalives=1",
        "keepalives_idle=30",
        "keepalives_interval=10",
        "keepalives_count=3",
        "tcp_user_timeout=10000",
        "channel_binding=require",
        "gssencmode=prefer",
        "load_balance_hosts=random",
        "client_encoding=UTF8",
        "sslsni=1",
        "sslcompression=0",
    ],
)
def test_what_the_driver_does_not_know_is_dropped(parameter: str) -> None:
    found = prepared(f"{URL}?sslmode=require&{parameter}&sslrootcert=%2Ftmp%2Fca.pem")
    assert found == (f"{URL}?sslmode=require&sslrootcert=%2Ftmp%2Fca.pem", None, None)
    assert prepared(f"{URL}?{parameter}").url == URL


def test_what_the_driver_knows_stays() -> None:
    known = (
        "sslmode=verify-full&sslcert=c&sslkey=k&sslrootcert=r&sslcrl=l&target_session_attrs=any"
        "&options=-c%20statement_timeout%3D5000&host=c&port=3&user=u&dbname=d&passfile=f"
    )
    assert prepared(f"{URL}?{known}").url == f"{URL}?{known}"


def test_names_and_time_limits_are_taken_out() -> None:
    found = prepared(f"{URL}?application_name=my%20shop&connect_timeout=7")
    assert found == (URL, "my shop", 7.0)
    assert prepared(f"{URL}?fallback_application_name=shop").application_name == "shop"
    assert prepared(f"{URL}?connect_timeout=0").connect_timeout is None, "0 is no limit"


@pytest.mark.parametrize(
    "parameter, words",
    [
        ("sslmod=require", "sslmod.*did you mean sslmode"),
        ("conect_timeout=3", "conect_timeout.*did you mean connect_timeout"),
        ("statement_timeout=5", "statement_timeout.*options=-c%20statement_timeout%3D"),
        ("schema=jobs", r"schema.*\[store\] schema"),
        ("pgbouncer=true", r"pgbouncer.*\[store\] pooler"),
        ("gssencmode=require", "gssencmode.*cannot"),
        ("replication=database", "replication.*cannot"),
        ("connect_timeout=soon", "connect_timeout = 'soon'.*whole number"),
    ],
)
def test_what_is_unknown_is_refused_by_name(parameter: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Address(f"{URL}?{parameter}")


def test_a_refusal_does_not_show_the_password() -> None:
    with pytest.raises(ConfigError) as refused:
        Address(f"{URL}?password=secret&sslmod=require")
    assert "secret" not in str(refused.value)
    assert "pa%26ss" not in str(refused.value)
