"""The fields with the real Django, on PostgreSQL and MariaDB."""

from __future__ import annotations

import json
import unittest
import uuid
from typing import Any

import django
import django.conf
import pymysql

from . import peers

# Django asks for the version of mysqlclient, in whose place PyMySQL stands.
pymysql.version_info = (2, 2, 1, "final", 0)
pymysql.install_as_MySQLdb()

ROWS = 10_000
ALIASES = ("default", "mariadb")


def setUpModule() -> None:
    """Starts the servers, and makes the models, for which Django must be configured."""
    found = peers.shared()
    common = {"HOST": "127.0.0.1"}
    django.conf.settings.configure(
        INSTALLED_APPS=["integrations"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        RAINDROP={"urls": [found.url], "deadline": peers.PATIENCE},
        DATABASES={
            "default": {
                **common,
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "USER": "postgres",
                "PORT": found.postgres,
            },
            "mariadb": {
                **common,
                "ENGINE": "django.db.backends.mysql",
                "NAME": "application",
                "USER": "root",
                "PORT": found.mariadb,
            },
        },
    )
    django.setup()
    make_models()
    from django.db import connections

    for alias in ALIASES:
        unittest.addModuleCleanup(connections[alias].close)
        with connections[alias].schema_editor() as editor:
            for model in (Customer, Order, Parcel):
                editor.create_model(model)


Customer: Any
Order: Any
Parcel: Any


def make_models() -> None:
    global Customer, Order, Parcel
    from django.db import models

    from raindrop_client.django import RaindropField, RaindropTextField, RaindropUUIDField

    class Customer(models.Model):
        id = RaindropField("order", primary_key=True)
        name = models.CharField(max_length=80)

        class Meta:
            app_label = "integrations"

    class Order(models.Model):
        id = RaindropField("order", primary_key=True)
        customer = models.ForeignKey(Customer, on_delete=models.CASCADE, null=True)
        number = RaindropTextField("order", unique=True)
        note = models.CharField(max_length=80, default="")

        class Meta:
            app_label = "integrations"

    class Parcel(models.Model):
        id = RaindropTextField("order", primary_key=True)
        tracking = RaindropField("order", unique=True)
        uid = RaindropUUIDField("order", unique=True)
        weight = models.IntegerField(default=0)

        class Meta:
            app_label = "integrations"


class Fields(unittest.TestCase):
    def test_bulk_create(self) -> None:
        for alias in ALIASES:
            with self.subTest(alias):
                orders = [Order(note=f"bulk {n}") for n in range(ROWS)]
                self.assertEqual({order.pk for order in orders}, {None})
                Order.objects.using(alias).bulk_create(orders, batch_size=2000)
                stored = dict(
                    Order.objects.using(alias)
                    .filter(note__startswith="bulk")
                    .values_list("id", "number")
                )
                numbers = {int(number.removeprefix("ORD-")) for number in stored.values()}
                self.assertEqual((len(stored), len(numbers | stored.keys())), (ROWS, 2 * ROWS))
                self.assertEqual([order.pk for order in orders], sorted(stored))
                self.assertTrue(all(stored[order.pk] == order.number for order in orders))

    def test_save_is_one_insert(self) -> None:
        from django.db import connections
        from django.test.utils import CaptureQueriesContext

        for alias in ALIASES:
            customer = Customer(name="one")
            with CaptureQueriesContext(connections[alias]) as queries:
                customer.save(using=alias)
            self.assertEqual([query["sql"].split()[0] for query in queries], ["INSERT"])
            order = Order.objects.using(alias).create(customer=customer, note="child")
            first = (order.pk, order.number)
            order.note = "changed"
            order.save(using=alias)
            order.refresh_from_db()
            self.assertEqual((order.pk, order.number, order.customer_id), (*first, customer.pk))
            self.assertEqual(type(order.pk), int)

    def test_text_keys(self) -> None:
        for alias in ALIASES:
            parcel = Parcel.objects.using(alias).create()
            self.assertRegex(parcel.pk, r"^ORD-\d+$")
            again = Parcel.objects.using(alias).get(tracking=parcel.tracking)
            self.assertEqual(again.pk, parcel.pk)

    def test_uuids(self) -> None:
        for alias in ALIASES:
            parcels = [Parcel(weight=-1) for _ in range(1000)]
            Parcel.objects.using(alias).bulk_create(parcels)
            own = Parcel.objects.using(alias).create(uid=uuid.UUID(int=5), weight=-1)
            stored = Parcel.objects.using(alias).filter(weight=-1)
            # As the database sorts them.
            in_order = list(stored.order_by("uid").values_list("uid", flat=True))
            self.assertEqual(in_order, [own.uid, *(parcel.uid for parcel in parcels)])
            self.assertEqual({uid.version for uid in in_order[1:]}, {7})
            self.assertEqual(stored.get(uid=parcels[9].uid).pk, parcels[9].pk)

    def test_assigned_keys_are_kept(self) -> None:
        from django.db import IntegrityError

        for alias in ALIASES:
            Customer.objects.using(alias).bulk_create(
                [Customer(pk=1, name="a"), Customer(name="b")]
            )
            Customer(pk=2, name="c").save(using=alias)
            order = Order.objects.using(alias).create(pk=3, number="own")
            self.assertEqual((order.pk, order.number), (3, "own"))
            with self.assertRaises(IntegrityError):
                Customer(pk=2, name="again").save(using=alias)
            found = set(Customer.objects.using(alias).values_list("pk", flat=True))
            self.assertLessEqual({1, 2}, found)

    def test_fixtures_are_kept(self) -> None:
        from django.core import serializers

        fields = {"number": "ORD-7", "note": "fixture"}
        fixture = json.dumps([{"model": "integrations.order", "pk": 77, "fields": fields}])
        for alias in ALIASES:
            for _ in range(2):
                for one in serializers.deserialize("json", fixture, using=alias):
                    one.save(using=alias)
            order = Order.objects.using(alias).get(note="fixture")
            self.assertEqual((order.pk, order.number), (77, "ORD-7"))

    def test_get_or_create_and_update_or_create(self) -> None:
        for alias in ALIASES:
            orders = Order.objects.using(alias)
            one, created = orders.get_or_create(note="once")
            self.assertTrue(created)
            self.assertEqual(orders.get_or_create(note="once"), (one, False))
            two, created = orders.update_or_create(note="once", defaults={"note": "twice"})
            self.assertEqual((two.pk, two.number, created), (one.pk, one.number, False))

    def test_migrations(self) -> None:
        from django.db.migrations.writer import MigrationWriter

        from raindrop_client.django import RaindropField

        field = Order._meta.get_field("number")
        text, imports = MigrationWriter.serialize(field.clone())
        self.assertIn("RaindropTextField('order'", text)
        self.assertNotIn("default", text)
        self.assertIn("import raindrop_client.django", imports)
        key = Order._meta.pk.clone()
        self.assertIsInstance(key, RaindropField)
        self.assertEqual((key.code, key.primary_key), ("order", True))
