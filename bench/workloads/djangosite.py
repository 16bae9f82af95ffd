# SPDX-License-Identifier: BSD-2-Clause
"""A small django site: three views, one model on sqlite, one template."""

import json
import os

PAGE = (
    "<html><h1>{{ who|title }}</h1><ul>{% for i in items %}<li class=\"{% cycle 'odd' 'even' %}\">"
    "{{ i.name }}: {{ i.price|floatformat:2 }}</li>{% empty %}nothing{% endfor %}</ul></html>"
)


def configure(tmp):
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="only for the benchmark",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": os.path.join(tmp, "django.sqlite3"),
                "CONN_MAX_AGE": None,
            }
        },
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        USE_TZ=True,
    )
    django.setup()


def application(tmp, rows):
    """The WSGI application; its database is made anew in tmp."""
    global urlpatterns
    configure(tmp)
    from django.core.wsgi import get_wsgi_application
    from django.db import connection, models
    from django.http import HttpResponse, JsonResponse
    from django.template import engines
    from django.urls import path

    class Item(models.Model):
        name = models.CharField(max_length=100)
        price = models.FloatField()

        class Meta:
            app_label = "bench"

    with connection.schema_editor() as editor:
        editor.create_model(Item)
    Item.objects.bulk_create(Item(name=row["name"], price=row["price"]) for row in rows)
    connection.close()
    template = engines["django"].from_string(PAGE)

    def items(request):
        found = Item.objects.filter(name__contains=request.GET["q"]).order_by("-name")[:20]
        return JsonResponse({"items": list(found.values()), "page": request.GET["page"]})

    def page(request, who):
        return HttpResponse(template.render({"who": who, "items": Item.objects.all()}, request))

    def orders(request):
        order = json.loads(request.body)
        known = Item.objects.filter(id__in=[line["id"] for line in order["lines"]]).count()
        return JsonResponse({"order": order["order"], "known": known})

    urlpatterns = [path("items", items), path("page/<str:who>", page), path("orders", orders)]
    return get_wsgi_application()
