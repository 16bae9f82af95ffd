#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Django site in one file that serves itself requests, and leaks.

The pictures in the README show this program.  Its middleware keeps every page
"for the audit", and nobody ever reads them.  Needs: pip install django.
"""
import itertools
import random
import time

import django
from django.conf import settings
from django.core.cache import cache
from django.http import HttpResponse
from django.template import Context, Template
from django.test import Client
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["__main__.audit"],
    ROOT_URLCONF="__main__",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
django.setup()

PAGE = Template(
    "<h1>{{ title }}</h1><ul>{% for item in items %}"
    "<li>{{ item.name }}: {{ item.price|floatformat:2 }}</li>{% endfor %}</ul>"
)
audit_log = []


def audit(get_response):
    """The leak: a list that only grows."""

    def middleware(request):
        response = get_response(request)
        audit_log.append(response.content.decode())
        return response

    return middleware


def load_items(category):
    return [{"name": f"item {category}-{i}", "price": i * 1.1} for i in range(60)]


def catalogue(request, category):
    """Caches the items of 50 categories: grows at first, then no more."""
    items = cache.get(category)
    if items is None:
        items = load_items(category)
        cache.set(category, items)
    return HttpResponse(PAGE.render(Context({"title": f"Category {category}", "items": items})))


urlpatterns = [path("c/<int:category>", catalogue)]


def main():
    client = Client()
    for _ in itertools.count():
        client.get(f"/c/{random.randrange(50)}")
        time.sleep(0.001)


if __name__ == "__main__":
    main()
