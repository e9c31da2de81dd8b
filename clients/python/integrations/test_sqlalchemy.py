"""The column defaults with the real SQLAlchemy, on PostgreSQL and MariaDB; and pydantic."""

from __future__ import annotations

import asyncio
import unittest
import uuid
from typing import Any

import pydantic
from sqlalchemy import BigInteger, ForeignKey, String, Uuid, create_engine, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from raindrop_client import AsyncClient, Client
from raindrop_client.sqlalchemy import next_id, next_text, next_uuid

from . import peers

ROWS = 10_000

urls: list[tuple[str, str]]
service: str


def setUpModule() -> None:
    global service, urls
    found = peers.shared()
    service = found.url
    psycopg = f"postgresql+psycopg://postgres@127.0.0.1:{found.postgres}/postgres"
    mysql = f"://root@127.0.0.1:{found.mariadb}/application"
    urls = [(psycopg, psycopg), (f"mysql+pymysql{mysql}", f"mysql+aiomysql{mysql}")]


def tables(code: Any, prefix: str) -> Any:
    """Returns the models of a base of their own, whose IDs come from a code of either client."""

    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = f"{prefix}_order"
        id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=next_id(code))
        number: Mapped[str] = mapped_column(String(64), unique=True, default=next_text(code))
        uid: Mapped[uuid.UUID] = mapped_column(Uuid, unique=True, default=next_uuid(code))
        note: Mapped[str] = mapped_column(String(80), default="")
        lines: Mapped[list[Line]] = relationship()

    class Line(Base):
        __tablename__ = f"{prefix}_line"
        id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=next_id(code))
        order_id: Mapped[int] = mapped_column(ForeignKey(f"{prefix}_order.id"))

    Base.registry._class_registry["Line"] = Line
    return Base, Order, Line


class Threads(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(service, deadline=peers.PATIENCE)
        self.addCleanup(self.client.close)

    def check(self, connection: Any, order: Any, rows: int) -> None:
        found = connection.execute(select(order.id, order.number)).all()
        ids = {one for one, _ in found} | {int(text.removeprefix("ORD-")) for _, text in found}
        self.assertEqual((len(found), len(ids)), (rows, 2 * rows))
        # The database sorts UUIDs as they were issued, and so the IDs of their rows.
        by_uuid = connection.execute(select(order.id, order.uid).order_by(order.uid)).all()
        self.assertEqual(by_uuid, sorted(by_uuid))
        self.assertEqual({type(uid) for _, uid in by_uuid}, {uuid.UUID})
        self.assertEqual({uid.version for _, uid in by_uuid}, {7})

    def test_core_orm_and_assigned_keys(self) -> None:
        for url, _ in urls:
            with self.subTest(url.split(":")[0]):
                base, order, line = tables(self.client.code("order"), "sync")
                engine = create_engine(url)
                base.metadata.create_all(engine)
                with engine.begin() as connection:
                    connection.execute(insert(order), [{"note": f"{n}"} for n in range(ROWS)])
                    several = insert(order).values([{"note": "a"}, {"note": "b"}])
                    connection.execute(several)
                    self.check(connection, order, ROWS + 2)
                with Session(engine) as session:
                    # With RETURNING in batches, where the database has that.
                    added = [
                        order(note=f"{n}", lines=[line()] if n % 10 == 0 else [])
                        for n in range(ROWS)
                    ]
                    session.add_all(added)
                    session.flush()
                    self.assertEqual(len({one.id for one in added}), ROWS)
                    lines = [(one, of.id) for of in added for one in of.lines]
                    self.assertTrue(all(one.order_id == key for one, key in lines))
                    returning = insert(order).returning(order.id, sort_by_parameter_order=True)
                    if engine.dialect.insert_executemany_returning:
                        batch = [{"note": f"batch {n}"} for n in range(ROWS)]
                        ids = session.scalars(returning, batch).all()
                        self.assertEqual((len(set(ids)), list(ids)), (ROWS, sorted(ids)))
                    session.add(order(id=7, number="own"))
                    session.commit()
                    kept = session.get(order, 7)
                    self.assertEqual((kept.id, kept.number), (7, "own"))
                    self.assertEqual(session.scalar(select(func.count(line.id))), ROWS // 10)
                engine.dispose()

    def test_pydantic_takes_the_ints(self) -> None:
        class Row(pydantic.BaseModel):
            model_config = pydantic.ConfigDict(strict=True)
            id: int

        one = self.client.code("order").next()
        row = Row(id=one)
        self.assertEqual(Row.model_validate_json(row.model_dump_json()).id, one)


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def test_asynchronous_engines(self) -> None:
        # Its debug mode, which takes note of every call, is no subject here.
        asyncio.get_running_loop().set_debug(False)
        for _, url in urls:
            with self.subTest(url.split(":")[0]):
                async with AsyncClient(service, deadline=peers.PATIENCE) as client:
                    base, order, _ = tables(client.code("order"), "async")
                    engine = create_async_engine(url)
                    async with engine.begin() as connection:
                        await connection.run_sync(base.metadata.create_all)
                        await connection.execute(
                            insert(order), [{"note": f"{n}"} for n in range(ROWS)]
                        )
                    async with AsyncSession(engine) as session:
                        session.add_all([order(note="orm") for _ in range(ROWS)])
                        await session.commit()
                        ids = (await session.scalars(select(order.id))).all()
                        uids = (await session.scalars(select(order.uid).distinct())).all()
                    await engine.dispose()
                self.assertEqual((len(ids), len(set(ids))), (2 * ROWS, 2 * ROWS))
                self.assertEqual(len(uids), 2 * ROWS)
