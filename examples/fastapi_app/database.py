"""The shop's own tables. Detent's stand beside them, so that one commit can cover both."""

import os

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

URL = os.environ.get("DATABASE_URL", "sqlite:///shop.db")

engine = create_engine(URL)


class Base(DeclarativeBase):
    """What SQLAlchemy knows all tables by."""


class Order(Base):
    """Something that somebody wants to buy."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    quantity: Mapped[int]
    status: Mapped[str] = mapped_column(default="new")
