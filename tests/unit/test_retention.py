"""If these fail, jobs are deleted too early, never, or by another rule than the written one."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from detent.model.retention import LONGEST, Action, Rule, StateRules

KEEPS = st.none() | st.timedeltas(timedelta(0), LONGEST)
AGES = st.timedeltas(timedelta(0), 2 * LONGEST)
RULES = st.builds(Rule, KEEPS, st.none() | st.sampled_from(Action))
QUEUES = st.dictionaries(st.sampled_from(["mail", "bulk", "audit"]), RULES)
ACTIONS = st.sampled_from(Action)
NAMES = st.sampled_from(["mail", "bulk", "audit", "default"])


@given(usual=RULES, queues=QUEUES, action=ACTIONS, name=NAMES)
def test_the_narrowest_rule_says_how_long(
    usual: Rule, queues: dict[str, Rule], action: Action, name: str
) -> None:
    rules = StateRules.compose(usual, queues, action)
    assert rules.of(name).keep == queues.get(name, usual).keep


@given(usual=RULES, queues=QUEUES, action=ACTIONS, name=NAMES)
def test_what_a_rule_leaves_open_the_wider_one_says(
    usual: Rule, queues: dict[str, Rule], action: Action, name: str
) -> None:
    rules = StateRules.compose(usual, queues, action)
    narrow = queues.get(name, usual)
    assert rules.of(name).action is (narrow.action or usual.action or action)
    assert rules.of(name).archives is (rules.of(name).action is Action.ARCHIVE)


@given(usual=RULES, queues=QUEUES, name=NAMES, age=AGES)
def test_no_job_is_due_before_the_shortest_time(
    usual: Rule, queues: dict[str, Rule], name: str, age: timedelta
) -> None:
    """Stores stop their walk there: a shorter time that it does not know of is never looked at."""
    rules = StateRules.compose(usual, queues)
    if rules.of(name).due(age):
        assert rules.shortest is not None
        assert age >= rules.shortest


@given(usual=RULES, queues=QUEUES)
def test_without_a_shortest_time_nothing_is_ever_due(usual: Rule, queues: dict[str, Rule]) -> None:
    rules = StateRules.compose(usual, queues)
    forever = all(rule.keep is None for rule in (usual, *queues.values()))
    assert (rules.shortest is None) is forever


@given(rule=RULES, age=AGES, later=AGES)
def test_what_is_due_stays_due(rule: Rule, age: timedelta, later: timedelta) -> None:
    assert rule.due(age + later) or not rule.due(age)


def test_a_job_stays_exactly_as_long_as_its_rule_says() -> None:
    rule = Rule(timedelta(days=7))
    assert not rule.due(timedelta(days=7) - timedelta(microseconds=1))
    assert rule.due(timedelta(days=7))
    assert not Rule(None).due(LONGEST)
    assert Rule(timedelta(0)).due(timedelta(0))
