"""What a schema is made of, as PostgreSQL's own catalogue tells it, in a form to compare."""

from typing import Any, Final

import asyncpg

#: One query for each kind of thing; the name of the schema is taken out of every definition.
_QUERIES: Final = {
    "tables": """
        SELECT relname, relkind::text, relpersistence::text, relrowsecurity, reloptions
        FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v', 'S', 'p', 'm')
    """,
    "columns": """
        SELECT relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
            attidentity::text, attgenerated::text, attstorage::text,
            attcollation::regcollation::text, pg_get_expr(adbin, adrelid)
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v', 'p', 'm')
            AND attnum > 0 AND NOT attisdropped
    """,
    "indexes": """
        SELECT relname, pg_get_indexdef(indexrelid), indisunique, indisprimary, indisvalid,
            -- The order in which they were made decides between plans that seem equal.
            row_number() OVER (PARTITION BY indrelid ORDER BY indexrelid)
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = $1::regnamespace
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = $1::regnamespace AND contype <> 'n'
    """,
    "sequences": """
        SELECT sequencename, data_type::text, start_value, increment_by, cache_size, cycle
        FROM pg_sequences WHERE schemaname = $1
    """,
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = $1",
    "functions": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = $1::regnamespace",
    "triggers": """
        SELECT tgname, pg_get_triggerdef(pg_trigger.oid)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = $1::regnamespace AND NOT tgisinternal
    """,
}

Catalogue = dict[str, list[tuple[str, ...]]]


async def catalogue(url: str, schema: str = "detent") -> Catalogue:
    """Return everything that stands in a schema, sorted."""
    connection = await asyncpg.connect(url)
    try:
        return {
            kind: sorted(_plain(row, schema) for row in await connection.fetch(query, schema))
            for kind, query in _QUERIES.items()
        }
    finally:
        await connection.close()


def without(found: Catalogue, table: str) -> Catalogue:
    """Return a catalogue that does not mention a table."""
    return {
        kind: [row for row in rows if not any(table in value for value in row)]
        for kind, rows in found.items()
    }


def _plain(row: Any, schema: str) -> tuple[str, ...]:
    return tuple(str(value).replace(f'"{schema}".', "").replace(f"{schema}.", "") for value in row)
