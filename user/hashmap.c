// SPDX-License-Identifier: BSD-2-Clause
#include "hashmap.h"

#include <errno.h>

static struct hashmap_entry *slot_of(const struct hashmap *map, u64 a, u64 b)
{
	size_t i = hashmap_mix(hashmap_mix(0, a), b) & (map->cap - 1);

	while (map->slots[i].value && (map->slots[i].a != a || map->slots[i].b != b))
		i = (i + 1) & (map->cap - 1);
	return &map->slots[i];
}

void *hashmap_get(const struct hashmap *map, u64 a, u64 b)
{
	return map->cap ? slot_of(map, a, b)->value : NULL;
}

static int grow(struct hashmap *map)
{
	struct hashmap bigger = {.cap = map->cap ? map->cap * 2 : 64, .n = map->n};

	bigger.slots = calloc(bigger.cap, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->cap; i++)
		if (map->slots[i].value)
			*slot_of(&bigger, map->slots[i].a, map->slots[i].b) = map->slots[i];
	free(map->slots);
	*map = bigger;
	return 0;
}

int hashmap_put(struct hashmap *map, u64 a, u64 b, void *value)
{
	struct hashmap_entry *e;

	if (map->n * 4 >= map->cap * 3 && grow(map))
		return -ENOMEM;
	e = slot_of(map, a, b);
	if (!e->value)
		map->n++;
	*e = (struct hashmap_entry){a, b, value};
	return 0;
}

void hashmap_clear(struct hashmap *map, void (*free_value)(void *))
{
	for (size_t i = 0; free_value && i < map->cap; i++)
		if (map->slots[i].value)
			free_value(map->slots[i].value);
	free(map->slots);
	*map = (struct hashmap){0};
}
