"""If these fail, a queue with jobs is never asked, or one without is asked for ever."""

from detent._engine.agenda import Agenda


def test_at_first_all_queues_are_asked() -> None:
    agenda = Agenda(["a", "b"])
    assert agenda
    assert agenda.first() == ["a", "b"]
    agenda.done(["a", "b"])
    assert not agenda
    assert agenda.first_at() is None


def test_a_queue_is_asked_at_its_moment() -> None:
    agenda = Agenda([])
    agenda.ask_at("a", 5.0)
    agenda.ask_at("b", 3.0)
    assert agenda.first_at() == 3.0
    agenda.come_due(2.9)
    assert not agenda
    agenda.come_due(3.0)
    assert agenda.first() == ["b"]
    assert agenda.first_at() == 5.0


def test_the_last_moment_that_was_named_counts() -> None:
    agenda = Agenda([])
    agenda.ask_at("a", 5.0)
    agenda.ask_at("a", 9.0)
    agenda.come_due(5.0)
    assert not agenda
    assert agenda.first_at() == 9.0
    agenda.ask_at("a", 7.0)
    agenda.come_due(7.0)
    assert agenda.first() == ["a"]
    assert agenda.first_at() is None


def test_what_is_being_asked_is_planned_anew() -> None:
    agenda = Agenda(["a"])
    agenda.ask_at("a", 5.0)
    agenda.done(["a"])
    agenda.come_due(5.0)
    assert not agenda
    agenda.ask(["a"])
    assert agenda.first() == ["a"], "it came while it was asked"


def test_a_full_queue_is_asked_when_it_has_room() -> None:
    agenda = Agenda(["a", "b"])
    for queue in agenda.first():
        agenda.wait_for_room(queue)
    assert not agenda
    assert not agenda.room_came("c")
    assert agenda.room_came("a")
    assert not agenda.room_came("a")
    assert agenda.first() == ["a"]
    assert agenda.room_came(None)
    assert agenda.first() == ["a", "b"]
    assert not agenda.room_came(None)


def test_queues_that_a_full_claim_did_not_come_to_are_asked_first() -> None:
    agenda = Agenda(())
    agenda.ask_in_turn(["a", "b", "c", "d"], "b")
    assert agenda.first() == ["c", "d", "b", "a"]
    assert agenda.first(2) == ["c", "d"]


def test_a_queue_that_fills_a_claim_has_its_turn_after_the_others() -> None:
    agenda = Agenda(())
    agenda.ask_in_turn(["a", "b"], "a")
    assert agenda.first() == ["b", "a"]
