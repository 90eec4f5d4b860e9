"""How PostgreSQL would run, or has run, a statement of the store: the plan as a value to ask.

Plans are taken as the store gets them: on a connection of its own making, with its planner
settings, of a prepared statement. That is the generic plan, whatever the arguments.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import detent.stores.postgres
from detent.stores.postgres.database import Connection

#: The names of all statements that the store can make.
STATEMENTS: Final = sorted(
    entry.name.removesuffix(".sql")
    for entry in files(detent.stores.postgres).joinpath("sql").iterdir()
    if entry.name.endswith(".sql")
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan tree, as `EXPLAIN (FORMAT JSON)` tells it."""

    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Every node of the tree, sub-plans and common table expressions included."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", ())

    def scans(self, table: str) -> list[dict[str, Any]]:
        """The nodes that read a table, or an index on behalf of it."""
        return [
            node
            for node in self.nodes()
            if node.get("Relation Name") == table and node["Node Type"].endswith("Scan")
        ]

    @property
    def whole_reads(self) -> list[str]:
        """The tables of ours that are read from end to end."""
        return [
            node["Relation Name"]
            for node in self.nodes()
            if node["Node Type"] == "Seq Scan" and node["Relation Name"].startswith("detent_")
        ]

    @property
    def tables_read(self) -> set[str]:
        """The tables of ours that are read at all."""
        return {
            node["Relation Name"]
            for node in self.nodes()
            if "Relation Name" in node and node["Node Type"].endswith("Scan")
        }

    @property
    def buffers(self) -> int:
        """How many pages a statement that was really run has touched."""
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    @property
    def rows(self) -> int:
        """How many rows a statement that was really run has returned."""
        return int(self.root["Actual Rows"])

    def __str__(self) -> str:
        return json.dumps(self.root, indent=1)


def used_index(scan: dict[str, Any]) -> str:
    """The index that a scan goes through, or what it does instead."""
    if scan["Node Type"] == "Bitmap Heap Scan":
        return str(scan["Plans"][0].get("Index Name", scan["Plans"][0]["Node Type"]))
    return str(scan.get("Index Name", scan["Node Type"]))


def condition(scan: dict[str, Any]) -> str:
    """What an index is asked for; a filter on rows that were read already does not count."""
    if scan["Node Type"] == "Bitmap Heap Scan":
        scan = scan["Plans"][0]
    return str(scan.get("Index Cond", ""))


class Explained:
    """A statement that is prepared on a connection, as the driver does it."""

    def __init__(self, connection: Connection, name: str, types: Sequence[str]) -> None:
        self._connection = connection
        self._name = name
        self._types = types

    @classmethod
    async def prepare(cls, connection: Connection, name: str, sql: str) -> "Explained":
        """Prepare a statement; its plan is made when it is first explained or run."""
        described = await connection.prepare(sql)
        types = [_type_name(parameter) for parameter in described.get_parameters()]
        given = f"({', '.join(types)})" if types else ""
        await connection.execute(f"PREPARE explained_{name} {given} AS {sql}")
        return cls(connection, f"explained_{name}", types)

    async def plan(self) -> Plan:
        """The plan that every call will use."""
        return await self._explain("FORMAT JSON, COSTS OFF", ["NULL"] * len(self._types))

    async def run(self, *args: Any) -> Plan:
        """Run the statement, undo it, and return the plan with what it has cost."""
        transaction = self._connection.transaction()
        await transaction.start()
        try:
            literals = [
                await self._connection.fetchval(f"SELECT quote_nullable($1::{kind})", value)
                for kind, value in zip(self._types, args, strict=True)
            ]
            return await self._explain("FORMAT JSON, ANALYZE, BUFFERS, TIMING OFF", literals)
        finally:
            await transaction.rollback()

    async def _explain(self, options: str, literals: Sequence[str]) -> Plan:
        values = ", ".join(literals)
        call = f"{self._name}({values})" if values else self._name
        text = await self._connection.fetchval(f"EXPLAIN ({options}) EXECUTE {call}")
        return Plan(json.loads(text)[0]["Plan"])


def _type_name(parameter: Any) -> str:
    if parameter.kind == "array":
        return f"{parameter.name.removesuffix('[]')}[]"
    return str(parameter.name)
