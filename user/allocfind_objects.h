/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects of a process in the order in which the dynamic linker searches them. */
#ifndef PHT_ALLOCFIND_OBJECTS_H
#define PHT_ALLOCFIND_OBJECTS_H

#include "proc.h"

#define OBJECTS_MAX 2048

struct object_list {
	const struct proc_map **v; /* owned array: each object's lowest mapping */
	size_t n;
};

/* 0, -ENOMEM. */
int object_list_read(pid_t pid, const struct proc_maps *maps, struct object_list *out);
void object_list_free(struct object_list *list);
/* Both are mappings of one file. */
bool object_same(const struct proc_map *a, const struct proc_map *b);

#endif
