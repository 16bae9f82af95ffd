/* SPDX-License-Identifier: BSD-2-Clause */
/* What the dynamic linker tells debuggers about the objects it has loaded. */
#ifndef PHT_GOT_LINKS_H
#define PHT_GOT_LINKS_H

#include "proc.h"

struct got_link {
	u64 dynamic; /* address of the object's dynamic section */
	u32 ns;
};

struct got_links {
	struct got_link *v; /* owned */
	size_t n;
	u64 signature; /* of the whole list: another list, another number */
	u64 brk;       /* called by the linker after each change */
	u64 linker;    /* where the linker itself is loaded */
	bool settled;  /* no change is under way */
};

/* r_debug: the value of the executable's DT_DEBUG.  0, -ENOENT (empty list), -errno. */
int got_links_read(pid_t pid, u64 r_debug, struct got_links *out);
void got_links_free(struct got_links *links);
/* The namespace of the object with this dynamic section; -ENOENT: not in the list. */
int got_links_find(const struct got_links *links, u64 dynamic, u32 *ns);
/* In place of the list's signature where there is no list. */
u64 got_maps_signature(const struct proc_maps *maps);

#endif
