# SPDX-License-Identifier: BSD-2-Clause
"""A unittest suite. Generated, because not every distribution ships the standard library's."""

import io
import tempfile
import unittest
from unittest import mock


def case(number):
    class Generated(unittest.TestCase):
        def setUp(self):
            self.data = {"k%d" % i: [i, str(i)] for i in range(20)}

        def test_equal(self):
            other = {"k%d" % i: [i, str(i)] for i in range(20)}
            self.assertEqual(self.data, other)
            self.assertDictEqual(dict(self.data), other)
            self.assertCountEqual(list(self.data), list(other))

        def test_difference(self):
            with self.assertRaises(AssertionError) as caught:
                self.assertEqual([1, 2, 3, number], [1, 2, 4, number])
            self.assertIn("First differing element 2", str(caught.exception))

        def test_raises(self):
            for bad in ("x", "", "1.5"):
                with self.subTest(bad=bad), self.assertRaisesRegex(ValueError, "invalid literal"):
                    int(bad)

        def test_mock(self):
            thing = mock.Mock()
            thing.load.return_value = {"n": number}
            self.assertEqual(thing.load("a", key=1)["n"], number)
            thing.load.assert_called_once_with("a", key=1)

        def test_patch(self):
            with mock.patch("tempfile.gettempdir", return_value="/nowhere"):
                self.assertEqual(tempfile.gettempdir(), "/nowhere")

        @unittest.skip("on purpose")
        def test_skipped(self):
            self.fail()

        @unittest.expectedFailure
        def test_fails(self):
            self.assertTrue(False)

    Generated.__qualname__ = Generated.__name__ = "Case%d" % number
    return Generated


class Suite:
    def __init__(self, ctx):
        self.cases = [case(i) for i in range(2)]

    def run(self, units):
        for _ in range(units):
            loader = unittest.TestLoader()
            suite = unittest.TestSuite(loader.loadTestsFromTestCase(c) for c in self.cases)
            result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=2).run(suite)
            # Whether a skipped test was run depends on the version.
            if not result.wasSuccessful() or result.testsRun < 6 * len(self.cases):
                raise AssertionError("the suite failed: %s" % (result.failures + result.errors))
        return None

    def close(self):
        pass
