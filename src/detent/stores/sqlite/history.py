"""Lets numbers begin above those that a lost part of the history has given."""

from detent.model.numbers import raised
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql


class Remembering:
    """The part of the store that `NumberStore` describes."""

    database: Database

    async def raise_numbers(self, above: int) -> None:
        """See `NumberStore.raise_numbers`."""

        def work(session: Session) -> None:
            for name in ("claim", "lock"):
                value = session.value(sql("raise_numbers", "given"), name)
                session.change(sql("raise_numbers", "raised"), name, raised(value, above))

        await self.database.write(work)
