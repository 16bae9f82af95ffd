# SPDX-License-Identifier: BSD-2-Clause
"""numpy and pandas: extension modules with allocators and caches of their own."""

import io
import os

# A pool of BLAS threads would spin on the CPUs that the tracer needs.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


class Work:
    def run(self, units):
        for _ in range(units):
            self.unit()
        return None

    def close(self):
        pass


class Numpy(Work):
    def __init__(self, ctx):
        import numpy

        self.np = numpy
        rnd = numpy.random.default_rng(3)
        self.small = [rnd.random(128) for _ in range(60)]
        self.medium = [rnd.random(4000) for _ in range(10)]
        self.large = rnd.random(130000)

    def unit(self):
        np = self.np
        total = 0.0
        for a in self.small:
            b = (a * 2 + 1) / (a + 0.7)
            total += float(np.where(b > 1.7, b, 0).sum())
            total += float(b[b > b.mean()].max())
        for a in self.medium:
            order = np.argsort(a)
            c = np.concatenate([a[order][::2], a[:100]])
            total += float(np.unique((c * 50).astype(np.int32)).size)
        d = self.large * 1.5 - 0.25
        total += float(d.reshape(-1, 130).sum(axis=1).std())
        if not total > 0:
            raise AssertionError("numpy: the sum is gone")


class Pandas(Work):
    def __init__(self, ctx):
        import numpy
        import pandas

        self.pd = pandas
        rnd = numpy.random.default_rng(3)
        rows = 2000
        self.frame = pandas.DataFrame(
            {
                "key": rnd.integers(0, 50, rows),
                "value": rnd.random(rows),
                "name": ["name %d" % (i % 97) for i in range(rows)],
            }
        )
        self.other = pandas.DataFrame({"key": range(50), "label": ["l%d" % i for i in range(50)]})
        self.csv = self.frame.head(400).to_csv(index=False)

    def unit(self):
        joined = self.frame.merge(self.other, on="key")
        joined["scaled"] = joined["value"] * 3 - joined["key"]
        table = joined.groupby("label").agg({"scaled": ["mean", "max"], "name": "nunique"})
        read = self.pd.read_csv(io.StringIO(self.csv))
        read["name"] = read["name"].str.upper().str.replace("NAME", "n", regex=False)
        text = read.sort_values("value").head(100).to_csv()
        if len(table) != 50 or len(text) < 1000:
            raise AssertionError("pandas: rows are gone")
