# SPDX-License-Identifier: BSD-2-Clause
"""sqlite3: an extension module whose library allocates with libc, its rows with Python."""

import random
import sqlite3


class Sqlite:
    def __init__(self, ctx):
        self.random = random.Random(7)
        self.db = sqlite3.connect(":memory:")
        self.db.row_factory = sqlite3.Row
        self.db.create_function("shout", 1, lambda text: text.upper() + "!")
        self.db.executescript(
            "create table person (id integer primary key, name text, town text);"
            "create table item (id integer primary key, person integer, price real, note text);"
            "create index item_person on item (person);"
        )
        self.db.executemany(
            "insert into person (name, town) values (?, ?)",
            [("name %d" % i, "town %d" % (i % 17)) for i in range(200)],
        )

    def unit(self):
        rnd = self.random
        rows = [(rnd.randrange(1, 200), rnd.random() * 90, "note %d" % i) for i in range(300)]
        with self.db:
            self.db.executemany("insert into item (person, price, note) values (?, ?, ?)", rows)
        towns = self.db.execute(
            "select town, count(*) n, avg(price) mean, group_concat(note) notes from person "
            "join item on item.person = person.id group by town order by mean"
        ).fetchall()
        names = self.db.execute(
            "select shout(name) loud, id from person where name like ?",
            ("%" + str(rnd.randrange(9)) + "%",),
        ).fetchall()
        if not towns or not all(row["n"] for row in towns) or not [dict(row) for row in names]:
            raise AssertionError("the database lost rows")
        with self.db:
            self.db.execute("delete from item")

    def run(self, units):
        for _ in range(units):
            self.unit()
        return None

    def close(self):
        self.db.close()
