# SPDX-License-Identifier: BSD-2-Clause
"""Ordinary Python on strings, objects and syntax trees; the standard library only."""

import ast
import csv
import io
import json
import random
import re


class Work:
    def __init__(self, ctx):
        self.random = random.Random(20)
        self.setup()

    def run(self, units):
        for _ in range(units):
            self.unit()
        return None

    def close(self):
        pass


class Json(Work):
    def setup(self):
        rnd = self.random
        self.records = [
            {
                "id": rnd.randrange(10**9),
                "name": "customer %d" % rnd.randrange(10**6),
                "email": "u%d@example.org" % i,
                "tags": ["t%d" % rnd.randrange(500) for _ in range(rnd.randrange(6))],
                "active": bool(i & 1),
                "balance": rnd.random() * 1000,
                "address": {
                    "street": "Road %d" % i,
                    "zip": str(rnd.randrange(99999)),
                    "lines": None,
                },
                "orders": [
                    {"sku": rnd.randrange(10**6), "n": j, "price": rnd.random()} for j in range(4)
                ],
            }
            for i in range(60)
        ]

    def unit(self):
        text = json.dumps(self.records)
        back = json.loads(text)
        if len(back) != len(self.records):
            raise AssertionError("json lost a record")
        json.dumps(back[:20], indent=1, sort_keys=True)


class Node:
    def __init__(self, key, value, parent):
        self.key = key
        self.value = value
        self.parent = parent
        self.children = []
        self.attributes = {"depth": parent.attributes["depth"] + 1 if parent else 0}


class Churn(Work):
    def setup(self):
        self.live = {}

    def unit(self):
        rnd = self.random
        live = self.live
        nodes = [Node("root", 0, None)]
        for i in range(600):
            parent = nodes[rnd.randrange(len(nodes))]
            node = Node("node-%d" % i, [i, i + 1.5], parent)
            parent.children.append(node)
            nodes.append(node)
        index = {node.key: node for node in nodes}
        total = sum(index[key].attributes["depth"] for key in index)
        summary = sorted((len(n.children), n.key) for n in nodes)[-10:]
        live[rnd.randrange(40)] = {"total": total, "summary": summary, "index": dict(index)}


class Strings(Work):
    def setup(self):
        rnd = self.random
        words = [
            "".join(rnd.choice("abcdefghijklmnop") for _ in range(rnd.randrange(2, 12)))
            for _ in range(300)
        ]
        self.text = " ".join(rnd.choice(words) for _ in range(900))
        self.pattern = re.compile(r"\b([a-d]\w+)\b")

    def unit(self):
        counts = {}
        for word in self.text.split():
            counts[word] = counts.get(word, 0) + 1
        lines = [f"{word:>12}: {count:5d} {count / 9:.2f}" for word, count in counts.items()]
        joined = "\n".join(line.strip().upper() for line in lines)
        self.pattern.sub(lambda m: "<" + m.group(1)[::-1] + ">", self.text)
        out = io.StringIO()
        writer = csv.writer(out)
        for word, count in counts.items():
            writer.writerow([word, count, word.title(), joined[:20]])
        rows = list(csv.reader(io.StringIO(out.getvalue())))
        acc = ""
        for row in rows:
            acc += row[0] + ","
        if acc.count(",") != len(counts):
            raise AssertionError("a word was lost")


SOURCE = '''
import os, sys
class Thing%(i)d(Base):
    """Documented."""
    limit = %(i)d
    def method(self, a, b=None, *args, key="x", **kw):
        if a > self.limit and b is not None:
            return [x * 2 for x in args if x %% 3] + list(kw.values())
        for n, item in enumerate(sorted(kw.items())):
            try:
                self.total += item[1] / (n or 1)
            except (ZeroDivisionError, TypeError) as exc:
                raise ValueError(f"bad {item!r} at {n}") from exc
        return {"a": a, "b": b, "key": key.strip().split(",")}
def function%(i)d(x, y):
    with open(os.path.join(x, "f")) as f:
        return lambda z: (x + y * z - 1) // len(f.read()) if z else None
'''


class Fold(ast.NodeTransformer):
    def visit_BinOp(self, node):
        self.generic_visit(node)
        return ast.copy_location(ast.BinOp(node.right, node.op, node.left), node)


class Compile(Work):
    def setup(self):
        self.source = "".join(SOURCE % {"i": i} for i in range(4))

    def unit(self):
        tree = ast.parse(self.source)
        tree = ast.fix_missing_locations(Fold().visit(tree))
        compile(tree, "generated", "exec")
