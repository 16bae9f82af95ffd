# SPDX-License-Identifier: BSD-2-Clause
"""Medians, quartiles, geometric means."""

import math


def quantile(values, q):
    """Linear interpolation between the closest ranks."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    high = math.ceil(at)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def summary(ratios):
    return {
        "n": len(ratios),
        "median": quantile(ratios, 0.5),
        "q1": quantile(ratios, 0.25),
        "q3": quantile(ratios, 0.75),
        "low": min(ratios),
        "high": max(ratios),
    }


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))
