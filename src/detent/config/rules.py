"""How people write how long ended jobs stay: `"7d"`, `"forever"`, `"90d archive"`, or a table."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from detent.config.readers import check_name
from detent.config.suggestions import nearest
from detent.errors import ConfigError
from detent.model.durations import format_duration, parse_duration
from detent.model.retention import LONGEST, Action, Rule
from detent.model.state import TERMINAL, State

FOREVER: Final = "forever"
_EXAMPLES: Final = (
    'must be "forever" or a duration such as "7d", with an action if it is not the usual one: '
    '"90d archive" or { keep = "90d", action = "archive" }'
)


def read_keep(value: Any) -> timedelta | None:
    """Read how long something stays; None is for ever."""
    if value is None or (isinstance(value, str) and value.strip().lower() == FOREVER):
        return None
    try:
        length = parse_duration(value)
    except ValueError as error:
        raise ValueError('must be "forever" or a duration such as "12h" or "7d"') from error
    if not timedelta(0) <= length <= LONGEST:
        raise ValueError(f'must be "forever" or from 0 to {format_duration(LONGEST)}')
    return length


def read_action(value: Any) -> Action:
    try:
        return Action(value)
    except ValueError as error:
        raise ValueError(f"must be one of {', '.join(Action)}") from error


def read_rule(value: Any) -> Rule:
    """Read a rule as a text, a table, a length of time, or itself."""
    if isinstance(value, Rule):
        return value
    if isinstance(value, Mapping):
        return _rule_of_table(value)
    if isinstance(value, str):
        keep, _, action = value.strip().rpartition(" ")
        if keep and action.isalpha():
            if action not in tuple(Action):
                raise ValueError(_EXAMPLES)
            return _rule(keep, action)
    elif not isinstance(value, int | float | timedelta):
        raise TypeError(_EXAMPLES)
    return Rule(read_keep(value))


def read_queue_rules(value: Any) -> dict[str, dict[State, Rule]]:
    """Read `{"mail": {"succeeded": "1d"}}`: what is different in some queues."""
    if not isinstance(value, Mapping):
        raise TypeError('must be tables such as [retention.queues.mail] with succeeded = "1d"')
    return {_queue(queue): _rules_of_queue(queue, table) for queue, table in value.items()}


def format_rule(rule: Rule) -> str:
    """Return a rule as `read_rule` reads it."""
    keep = FOREVER if rule.keep is None else format_duration(rule.keep)
    return keep if rule.action is None else f"{keep} {rule.action}"


def _rule(keep: Any, action: Any) -> Rule:
    rule = Rule(read_keep(keep), read_action(action))
    if rule.keep is None:
        raise ValueError(f"what stays for ever needs no action: leave out {action!r}")
    return rule


def _rule_of_table(table: Mapping[str, Any]) -> Rule:
    for key in table:
        if key not in ("keep", "action"):
            raise ValueError(_unknown(key, ("keep", "action")))
    if "keep" not in table:
        raise ValueError('has no keep: write { keep = "90d", action = "archive" }')
    if "action" in table:
        return _rule(table["keep"], table["action"])
    return Rule(read_keep(table["keep"]))


def _rules_of_queue(queue: str, table: Any) -> dict[State, Rule]:
    if not isinstance(table, Mapping):
        raise TypeError(
            f'{queue} = {table!r}: must be a table: [retention.queues.{queue}] succeeded = "1d"'
        )
    rules: dict[State, Rule] = {}
    for key, value in table.items():
        if key not in TERMINAL:
            raise ValueError(f"{queue}.{_unknown(key, TERMINAL)}")
        try:
            rules[State(key)] = read_rule(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{queue}.{key} = {value!r}: {error}") from error
    return rules


def _unknown(key: str, keys: tuple[str, ...]) -> str:
    meant = nearest(key, keys)
    ending = f"did you mean {meant}?" if meant else f"the keys are {', '.join(keys)}"
    return f"{key}: unknown key; {ending}"


def _queue(name: Any) -> str:
    try:
        return check_name("the queue", name)
    except ConfigError as error:
        raise ValueError(str(error)) from error
