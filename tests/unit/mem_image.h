/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A made-up or recorded memory behind a struct reader: pages by address.  A
 * recording image fills itself from a process, page by page, as it is read.
 */
#ifndef PHT_MEM_IMAGE_H
#define PHT_MEM_IMAGE_H

#include <errno.h>
#include <string.h>

#include "reader.h"

#define IMAGE_PAGE  4096u
#define IMAGE_PAGES 16384u /* most */
#define IMAGE_SLOTS (2 * IMAGE_PAGES)

struct image_page {
	u64 addr;
	u8 *data; /* owned */
};

struct mem_image {
	struct image_page slot[IMAGE_SLOTS]; /* a hash table */
	size_t n;
	const struct reader *source; /* recorded from; NULL = what is not there cannot be read */
	u64 reads;
};

static inline struct image_page *image_slot(struct mem_image *m, u64 addr)
{
	size_t i = (size_t)((addr / IMAGE_PAGE) * 0x9e3779b97f4a7c15ull >> 33) % IMAGE_SLOTS;

	while (m->slot[i].data && m->slot[i].addr != addr)
		i = (i + 1) % IMAGE_SLOTS;
	return &m->slot[i];
}

static inline u8 *image_add_page(struct mem_image *m, u64 addr)
{
	struct image_page *p = image_slot(m, addr & ~(u64)(IMAGE_PAGE - 1));

	if (!p->data && m->n < IMAGE_PAGES) {
		p->addr = addr & ~(u64)(IMAGE_PAGE - 1);
		p->data = calloc(1, IMAGE_PAGE);
		m->n++;
	}
	return p->data;
}

static inline u8 *image_page(struct mem_image *m, u64 addr)
{
	u8 *data = image_slot(m, addr)->data;

	if (data || !m->source || m->n == IMAGE_PAGES)
		return data;
	data = image_add_page(m, addr);
	if (!reader_read(m->source, addr, data, IMAGE_PAGE))
		return data;
	image_slot(m, addr)->data = NULL; /* the last one added: no chain leads through it */
	free(data);
	m->n--;
	return NULL;
}

static inline int image_read(void *ctx, u64 addr, void *buf, size_t len)
{
	struct mem_image *m = ctx;

	m->reads++;
	for (size_t done = 0; done < len;) {
		u64 at = addr + done, page = at & ~(u64)(IMAGE_PAGE - 1);
		size_t n = (size_t)(page + IMAGE_PAGE - at);
		const u8 *data = image_page(m, page);

		if (!data)
			return -EFAULT;
		if (n > len - done)
			n = len - done;
		memcpy((u8 *)buf + done, data + (at - page), n);
		done += n;
	}
	return 0;
}

static inline struct reader image_reader(struct mem_image *m)
{
	return (struct reader){.read = image_read, .ctx = m};
}

/* Write into the image, adding pages where there are none. */
static inline void image_write(struct mem_image *m, u64 addr, const void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		image_add_page(m, addr + i)[(addr + i) % IMAGE_PAGE] = ((const u8 *)buf)[i];
}

static inline void image_put_u32(struct mem_image *m, u64 addr, u32 value)
{
	image_write(m, addr, &value, sizeof(value));
}

static inline void image_put_u64(struct mem_image *m, u64 addr, u64 value)
{
	image_write(m, addr, &value, sizeof(value));
}

static inline void image_free(struct mem_image *m)
{
	for (size_t i = 0; i < IMAGE_SLOTS; i++)
		free(m->slot[i].data);
	free(m);
}

#endif
